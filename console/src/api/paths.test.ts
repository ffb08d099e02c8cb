import { expect, test } from "vitest";

const sources: Record<string, string> = import.meta.glob(["../**/*.{ts,tsx}", "!../**/*.test.ts", "!./schema.d.ts"], {
  query: "?raw",
  import: "default",
  eager: true,
});

/** Calls by the generated client. What the API does not have does not compile. */
const CALLS = /\.(GET|POST|PUT|PATCH|DELETE)\(\s*["`]\/api\//g;

test("the generated types check the path of every call", () => {
  const unchecked = Object.entries(sources).flatMap(([name, text]) =>
    text
      .replaceAll(CALLS, "")
      .split("\n")
      .filter((line) => /["'`]\/api\//.test(line) && !line.includes("satisfies keyof paths"))
      .map((line) => `${name}: ${line.trim()}`),
  );
  expect(Object.keys(sources).length).toBeGreaterThan(100);
  expect(unchecked).toEqual([]);
});
