// SPDX-License-Identifier: Apache-2.0
// JSON without a loss: a number that JavaScript would round or write in another way is printed, and sent back, as it came.
// A browser that does not give the text of a number (before 2025) has the rounded one.

/** A number that prints as the text that came. It is compared and added as JavaScript rounds it. */
export class Exact extends Number {
  constructor(text) {
    super(text);
    this.text = text;
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return JSON.rawJSON(this.text);
  }
}

/** A whole number that differs from another by some; as text. */
export const step = (number, by) => String(BigInt(String(number)) + BigInt(by));

export const parse = (text) =>
  JSON.parse(text, (_, value, { source } = {}) => (typeof value === "number" && source && source !== String(value) ? new Exact(source) : value));
