import { expect, test } from "vitest";
import { ApiError, errorOf, mayBeMade } from "./error";

const response = (body: string) => new Response(body, { status: 502, headers: { "x-request-id": "7" } });

test("an error of the service has its code, message, details and request", async () => {
  const body = { statusCode: 502, code: "UPSTREAM", message: "The ESM does not answer.", details: ["timeout"] };
  const { status, code, message, details, requestId } = await errorOf(response(JSON.stringify(body)));
  expect([status, code, message, details, requestId]).toEqual([502, "UPSTREAM", body.message, ["timeout"], "7"]);
});

test.each(["<html></html>", '{"message":"no upstream"}', "null", '"busy"'])("%s is said by a proxy", async (body) => {
  expect(await errorOf(response(body))).toMatchObject({ status: 502, code: "UNREACHABLE", details: [] });
});

test("only a change whose response was lost, or that failed in the service, may have been made", () => {
  const made = (status: number) => mayBeMade(new ApiError(status, "UNREACHABLE", "", [], null));
  expect([0, 500, 503, 400, 409, 429].map(made)).toEqual([true, true, true, false, false, false]);
  expect([null, new Error("other")].map(mayBeMade)).toEqual([false, false]);
});
