import { expect, test } from "vitest";
import { byCause } from "./refusals";

test("messages that were refused for the same cause are one entry, with the newest first", () => {
  const refused = (
    [
      ["TIMESTAMP_OUT_OF_WINDOW", "sentAt: is 402 s behind the service's clock"],
      ["SIGNATURE_INVALID", "sig: does not match"],
      ["TIMESTAMP_OUT_OF_WINDOW", "sentAt: is 401 s behind the service's clock"],
      ["TIMESTAMP_OUT_OF_WINDOW", "sentAt: is 400 s ahead of the service's clock"],
      ["MALFORMED", "payload.0.time: is missing"],
      ["MALFORMED", "payload.7.time: is missing"],
    ] as const
  ).map(([reason, detail], index) => ({
    id: String(index),
    reason,
    detail,
    bytes: 10,
    topic: "",
    messageId: null,
    receivedAt: "",
  }));
  expect([...byCause(refused).values()].map((cause) => cause.map(({ id }) => id))).toEqual([
    ["0", "2"],
    ["1"],
    ["3"],
    ["4", "5"],
  ]);
});
