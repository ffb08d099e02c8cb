// Draws the OpenAPI document and sends what the reader fills in. The access token stays in this page's memory.

const element = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
};

let token = null;
let api = null;

const resolve = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema ?? {});

function example(schema, depth = 0) {
  const found = resolve(schema);
  if ("default" in found) return found.default;
  if (found.enum) return found.enum[0];
  if (found.anyOf) return example(found.anyOf.find((option) => option.type !== "null"), depth);
  if (found.type === "object") {
    const wanted = Object.entries(found.properties ?? {}).filter(([name]) => depth < 3 && (found.required ?? []).includes(name));
    return Object.fromEntries(wanted.map(([name, inner]) => [name, example(inner, depth + 1)]));
  }
  if (found.type === "array") return found.minItems ? [example(found.items, depth + 1)] : [];
  if (found.type === "integer" || found.type === "number") return found.minimum ?? 0;
  if (found.type === "boolean") return false;
  if (found.format === "uuid") return "00000000-0000-7000-8000-000000000000";
  if (found.format === "date-time") return new Date().toISOString();
  if (found.format === "email") return "ada@example.com";
  return "text";
}

function rules(schema) {
  const found = resolve(schema);
  if (found.anyOf) return found.anyOf.map(rules).join(" or ");
  const words = [found.format ?? found.type ?? "anything"];
  if (found.enum) words.push(`one of ${found.enum.join(", ")}`);
  for (const [keyword, text] of [["minLength", "at least %s characters"], ["maxLength", "at most %s characters"], ["minimum", ">= %s"],
    ["maximum", "<= %s"], ["pattern", "matching %s"], ["minItems", "at least %s items"], ["maxItems", "at most %s items"], ["default", "default %s"]]) {
    if (keyword in found) words.push(text.replace("%s", () => JSON.stringify(found[keyword])));
  }
  return words.join(", ");
}

async function send(method, path, headers = {}, body) {
  const all = { ...headers };
  if (token) all.authorization = `Bearer ${token}`;
  if (body !== undefined) all["content-type"] = "application/json";
  const started = performance.now();
  const answer = await fetch(path, { method, headers: all, body });
  const text = await answer.text();
  return { answer, text, milliseconds: Math.round(performance.now() - started) };
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function tryForm(method, path, operation) {
  const parameters = (operation.parameters ?? []).filter((parameter) => parameter.name !== "x-org-id");
  const inputs = parameters.map((parameter) => make("input", { size: 40, required: parameter.in === "path", spellcheck: false }));
  const content = operation.requestBody?.content["application/json"];
  const body = content ? make("textarea", { value: JSON.stringify(example(content.schema), null, 2), spellcheck: false, ariaLabel: "Body" }) : null;
  const result = make("pre", { hidden: true });
  const form = make("form", {},
    ...parameters.map((parameter, index) => make("label", { className: "field" },
      make("span", { textContent: `${parameter.name}${parameter.required ? " *" : ""}` }), inputs[index],
      make("span", { className: "hint", textContent: `${parameter.in}: ${rules(parameter.schema)}` }))),
    body, make("p", {}, make("button", { textContent: "Send" })), result);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let target = path;
    const query = new URLSearchParams();
    const headers = {};
    parameters.forEach((parameter, index) => {
      const value = inputs[index].value;
      if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, () => encodeURIComponent(value));
      else if (value !== "" && parameter.in === "query") query.append(parameter.name, value);
      else if (value !== "") headers[parameter.name] = value;
    });
    const organization = element("organization").value.trim();
    if (organization) headers["x-org-id"] = organization;
    result.hidden = false;
    try {
      const search = query.size ? `?${query}` : "";
      const { answer, text, milliseconds } = await send(method.toUpperCase(), target + search, headers, body?.value);
      result.textContent = `${answer.status} in ${milliseconds} ms · ${answer.headers.get("x-request-id")}\n\n${pretty(text)}`;
    } catch (error) {
      result.textContent = `The service could not be reached: ${error.message}`;
    }
  });
  return form;
}

function fieldList(schema) {
  const found = resolve(schema);
  if (!found.properties) return make("p", { textContent: rules(found) });
  return make("dl", {}, ...Object.entries(found.properties).flatMap(([name, inner]) => [
    make("dt", { textContent: name + ((found.required ?? []).includes(name) ? " *" : "") }), make("dd", { textContent: rules(inner) })]));
}

function draw(method, path, operation) {
  const box = make("details", {}, make("summary", {}, make("code", {}, make("span", { className: "method", textContent: method.toUpperCase() }), path), operation.summary));
  box.dataset.words = `${method} ${path} ${operation.summary} ${operation.description}`.toLowerCase();
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    const content = operation.requestBody?.content;
    box.append(
      ...operation.description.split("\n\n").map((text) => make("p", { textContent: text })),
      ...(content ? [make("h3", { textContent: "Body" }), fieldList(Object.values(content)[0].schema)] : []),
      make("h3", { textContent: "Answers" }),
      make("dl", {}, ...Object.entries(operation.responses).flatMap(([status, answer]) => [make("dt", { textContent: status }), make("dd", { textContent: answer.description })])),
      make("h3", { textContent: "Try it" }), tryForm(method, path, operation));
  });
  return box;
}

function drawAll() {
  const groups = new Map();
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = operation.tags[0];
      if (tag === "docs") continue;
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(draw(method, path, operation));
    }
  }
  const sections = [...groups].map(([tag, boxes]) => make("section", {}, make("h2", { textContent: tag }), ...boxes));
  element("operations").replaceChildren(...sections);
}

element("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(event.target));
  const { answer, text } = await send("POST", "/api/v1/auth/login", {}, JSON.stringify(fields));
  const body = JSON.parse(text);
  if (!answer.ok) {
    element("who").value = `${body.message} ${body.details.join("; ")}`;
    return;
  }
  token = body.access_token;
  const { user } = body;
  element("who").value = `Logged in as ${user.email}${user.isSuperAdmin ? " (SuperAdmin)" : ""}.`;
  element("organization").value ||= user.currentOrganization?.id ?? "";
  element("organizations").replaceChildren(...user.organizations.map((one) => make("option", { value: one.id, textContent: `${one.name} (${one.role})` })));
});

element("find").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const section of element("operations").querySelectorAll("section")) {
    let shown = 0;
    for (const box of section.querySelectorAll("details")) {
      box.hidden = !words.every((word) => box.dataset.words.includes(word));
      shown += box.hidden ? 0 : 1;
    }
    section.hidden = shown === 0;
  }
});

api = await (await fetch("/api/v1/openapi.json")).json();
drawAll();
