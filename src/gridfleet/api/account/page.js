// One step: what it says, what it asks for, the call it makes, and the step or words that follow.
// The latter is `done` and not `then`: `await` takes an object with a method of that name for a promise.
const name = { name: "name", label: "Your name", autocomplete: "name" };
const password = { name: "password", label: "Password", type: "password", autocomplete: "new-password" };
const USED = "INVITATION_ALREADY_ACCEPTED";
const ifUsed = (error) => (error.code === USED ? login("This invitation has been used.") : null);
const registration = {
  text: "Choose a name and a password: at least 8 characters, with a lower-case and a capital letter, a digit and a special character.",
  button: "Register",
  fields: [name, password],
  call: (token, values) => ask("POST", "/register/invite", { ...values, token }),
  done: () => login("You are registered."),
  // The response to the first try was lost.
  otherwise: ifUsed,
};
const checkInvitation = (token) => ask("POST", "/check-invitation", { token });
const steps = {
  "/account/confirm-email": {
    text: "Confirm that this is the new e-mail address of your account.",
    button: "Confirm",
    fields: [],
    call: (token) => ask("POST", "/email/confirm", { token }),
    done: () => login("Your new e-mail address is confirmed."),
  },
  "/account/reset-password": {
    text: "Choose a new password of at least 12 characters.",
    button: "Set the password",
    fields: [{ ...password, name: "newPassword", label: "New password" }],
    call: (token, values) => ask("POST", "/reset-password", { ...values, token }),
    done: () => login("Your new password is set."),
  },
  "/account/invitation": {
    text: "Join the organisation that invited you.",
    button: "Accept the invitation",
    fields: [],
    check: checkInvitation,
    call: (token) => ask("GET", `/confirm-accept?token=${encodeURIComponent(token)}`),
    done: (answer) => (answer.redirectPath === "/login" ? login("You are a member now.") : registration),
    // An invitation that was accepted without registering is completed by the same link. It is not that of a member.
    otherwise: (error) => (error.code === USED ? checkInvitation(token).then(() => registration, ifUsed) : null),
  },
};

// The last step: what was done, and the way to the console.
function login(outcome) {
  return { text: `${outcome} Log in with your e-mail address and password.`, link: "/console/login" };
}

const text = document.getElementById("text");
const form = document.getElementById("form");
const outcome = document.getElementById("outcome");
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const first = steps[location.pathname.replace(/\/$/, "")];
history.replaceState(null, "", location.pathname);

async function ask(method, path, body) {
  const answer = await fetch(`/api/v1/auth${path}`, {
    method,
    credentials: "omit",
    headers: body ? { "content-type": "application/json" } : {},
    body: body && JSON.stringify(body),
  });
  const content = await answer.json();
  if (!answer.ok) throw content;
  return content;
}

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function show(step) {
  outcome.replaceChildren();
  form.hidden = !step.fields;
  text.textContent = step.text ?? step;
  if (step.link) outcome.replaceChildren(element("a", { href: step.link, textContent: "Log in" }));
  if (form.hidden) return;
  const inputs = step.fields.map(({ label, ...field }) => element("label", {}, label, element("input", { required: true, ...field })));
  const button = element("button", { textContent: step.button });
  form.replaceChildren(...inputs, button);
  form.onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      show(step.done(await step.call(token, Object.fromEntries(new FormData(form)))));
    } catch (error) {
      const next = await step.otherwise?.(error);
      if (next) return show(next);
      complain(error);
    } finally {
      button.disabled = false;
    }
  };
}

function complain(error) {
  const lines = [error.code ? error.message : "The service does not answer. Try again in a moment."];
  if (Array.isArray(error.details)) lines.push(...error.details);
  outcome.replaceChildren(element("div", { className: "wrong" }, ...lines.map((line) => element("p", { textContent: line }))));
}

async function start() {
  if (!token) return show("The link is not complete. Open it from the mail once more.");
  try {
    await first.check?.(token);
    show(first);
  } catch (error) {
    const next = ifUsed(error);
    if (next) return show(next);
    text.textContent = "";
    complain(error);
  }
}

start();
