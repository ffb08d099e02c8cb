// Starts Swagger UI with a copy of the OpenAPI document that is adapted to the page. The page stores nothing.

const spec = await (await fetch("/api/v1/openapi.json")).json();
spec.servers = [{ url: location.origin }]; // the page may be open at another address than the public URL
spec.info.description += "\n\nLog in with `POST /api/v1/auth/login`, then name your organisation under *Authorize*. The browser sends "
  + "the session cookie with every call. Values that you enter are lost when the page is closed.";

// A page cannot set cookies for a call, so the cookie is not offered. The organisation is entered once instead of at every call.
const { cookie, ...schemes } = spec.components.securitySchemes;
const organization = { type: "apiKey", in: "header", name: "x-org-id", description: "Id of the organisation to act in." };
spec.components.securitySchemes = { organization, ...schemes };

for (const operation of Object.values(spec.paths).flatMap((path) => Object.values(path))) {
  const parameters = operation.parameters ?? [];
  operation.parameters = parameters.filter((parameter) => parameter.name !== "x-org-id");
  operation.security = operation.security.filter((scheme) => !("cookie" in scheme));
  if (operation.parameters.length < parameters.length) operation.security.forEach((scheme) => (scheme.organization = []));
  operation.parameters.forEach((parameter) => delete parameter.example); // Swagger UI would send it
}

SwaggerUIBundle({
  spec, dom_id: "#page", deepLinking: true, docExpansion: "none", filter: true, tryItOutEnabled: true,
  displayRequestDuration: true, defaultModelsExpandDepth: 0,
});
