// SPDX-License-Identifier: Apache-2.0
// The way in: a form for user and password, if the API offers a login, and a field for a token. A password is sent once
// and stored nowhere; a token is stored in this tab only.
import { Component, createRef, html } from "./html.js";
import { logIn, Problem, session, token } from "./api.js";

const NAMES = ["user", "user_domain", "project", "project_domain"];

class Token extends Component {
  state = { text: "" };

  send = (event) => {
    event.preventDefault();
    const text = this.state.text.trim();
    if (text) this.props.signIn(text);
  };

  render({ why }, { text }) {
    return html`<form class="token" onSubmit=${this.send}>
      <label for="token">Keystone token</label>
      <input id="token" type="password" autocomplete="off" spellcheck="false" value=${text}
        aria-describedby="token-why" onInput=${(event) => this.setState({ text: event.target.value })} />
      <button type="submit">Use</button>
      <p id="token-why" class="sub">${why || "The data needs a token."} A token is stored in this tab only.</p>
    </form>`;
  }
}

/** Properties: before (the names of the last login), signIn(token, about). */
class Password extends Component {
  state = { user: "", user_domain: "", project: "", project_domain: "", system: false, busy: false, problem: null };
  password = createRef();
  form = createRef();

  componentDidMount() {
    const { user_domain, system, ...before } = this.props.before || {};
    this.setState({ ...before, user_domain: user_domain ?? "", system: Boolean(system) }, () => {
      const empty = [...this.form.current.querySelectorAll("input[required]")].find((field) => !field.value);
      empty?.focus();
    });
  }

  send = async (event) => {
    event.preventDefault();
    if (this.state.busy) return;
    const { system, user } = this.state;
    const names = Object.fromEntries(NAMES.map((name) => [name, this.state[name].trim()]).filter(([, value]) => value));
    if (system) for (const name of ["project", "project_domain"]) delete names[name];
    const password = this.password.current.value;
    this.password.current.value = "";
    this.setState({ busy: true, problem: null });
    try {
      const answer = await logIn({ ...names, user, password, ...(system && { system }) });
      this.props.signIn(answer.token, { ...names, user, system, expires_at: answer.expires_at, projects: answer.projects });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.setState({ busy: false, problem }, () => this.password.current?.focus());
    }
  };

  field(name, title, more = {}) {
    return html`<label class="field">${title}
      <input name=${name} value=${this.state[name]} spellcheck="false" autocapitalize="off" maxlength="255"
        autocomplete="off" onInput=${(event) => this.setState({ [name]: event.target.value })} ...${more} /></label>`;
  }

  scope(system, title) {
    return html`<label class="choice"><input type="radio" name="scope" checked=${this.state.system === system}
      onChange=${() => this.setState({ system })} /> ${title}</label>`;
  }

  render(_, { system, busy, problem, user_domain }) {
    const later = problem?.retryAfter ? ` Try again in ${problem.retryAfter} s.` : "";
    return html`<form class="password" ref=${this.form} onSubmit=${this.send} aria-describedby=${problem ? "login-problem" : null}>
      ${problem && html`<p class="problem" id="login-problem" role="alert">${problem.message}.${later}</p>`}
      ${this.field("user", "User", { required: true, autocomplete: "username" })}
      ${this.field("user_domain", "User domain", { placeholder: "Default" })}
      <label class="field wide">Password
        <input name="password" type="password" required maxlength="4096" autocomplete="current-password" ref=${this.password} /></label>
      <fieldset class="wide"><legend>Scope</legend>${this.scope(false, "Project")}${this.scope(true, "System")}</fieldset>
      ${!system && this.field("project", "Project", { required: true })}
      ${!system && this.field("project_domain", "Project domain", { placeholder: user_domain || "Default" })}
      <button type="submit" class="wide main" disabled=${busy}>${busy ? "Logging in…" : "Log in"}</button>
    </form>`;
  }
}

/** Properties: offered (whether the API has a login; null: not known yet), before, why (why there is no token), signIn. */
export function Login({ offered, before, why, signIn }) {
  return html`<section class="login pane" aria-labelledby="login-title">
    <header class="pane-head"><h2 id="login-title">${offered ? "Log in" : "Token"}</h2></header>
    <div class="pane-body">
      ${offered === null && html`<p class="none" role="status">Loading…</p>`}
      ${offered && why && html`<p class="note" role="status" id="login-why">${why}</p>`}
      ${offered && html`<${Password} before=${before} signIn=${signIn} />`}
      ${offered && html`<details><summary>Use a token instead</summary><${Token} signIn=${signIn} /></details>`}
      ${offered === false && html`<${Token} why=${why} signIn=${signIn} />`}
    </div>
  </section>`;
}

/** Who is logged in, and the way out. */
export function LoggedIn({ leave }) {
  if (!token()) return null;
  const about = session();
  const scope = about && (about.system ? "the system" : about.project);
  return html`<p class="logged-in">${about && html`<span title=${`Until ${about.expires_at}`}>${about.user} in ${scope}</span> `}
    <button type="button" class="link" onClick=${leave}>${about ? "Log out" : "Forget token"}</button></p>`;
}
