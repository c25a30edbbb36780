// SPDX-License-Identifier: Apache-2.0
// A component that asks the API while it is shown: at first, every few seconds, and soon after a change of the kinds
// that it shows. An answer to an older question is dropped. With the property `asOf` it shows the past, which does not
// change.
import { Component } from "./html.js";
import { Problem } from "./api.js";

const SOON = 1000;

export class Asking extends Component {
  /** Milliseconds between two questions. */
  every = 10000;
  state = { problem: null };

  /** What to show; becomes part of the state. To be overridden. */
  async load() {
    return {};
  }

  /** Whether a change is of what this shows. */
  concerns() {
    return false;
  }

  componentDidMount() {
    this.ended = this.props.watch((row) => {
      if (!this.props.asOf && this.concerns(row)) this.due ??= setTimeout(this.ask, SOON);
    });
    this.timer = setInterval(() => document.hidden || this.props.asOf || this.ask(), this.every);
    this.ask();
  }

  componentDidUpdate(before) {
    if (before.kinds !== this.props.kinds || before.asOf !== this.props.asOf) this.ask();
  }

  componentWillUnmount() {
    this.ended();
    clearInterval(this.timer);
    clearTimeout(this.due);
    this.question = null;
  }

  ask = async () => {
    clearTimeout(this.due);
    this.due = null;
    const mine = (this.question = {});
    let answer;
    try {
      answer = { ...(await this.load()), problem: null };
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      answer = { problem };
    }
    if (mine === this.question) this.setState(answer);
  };
}
