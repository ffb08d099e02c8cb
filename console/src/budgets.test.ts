import { build, type Rolldown } from "vite";
import { beforeAll, expect, test, vi } from "vitest";

/** Bytes of compressed scripts. `python -m bench.console` measures the same in a browser. */
const BUDGET_OF_FIRST_PAGE = 130_000;
const BUDGET_OF_SCREEN = 30_000;

/** A part that the fleet's page always loads, after its rows. */
const OF_FLEET = "screens/fleet-unregistered.tsx";

let chunks: Rolldown.OutputChunk[];
let sizes: Map<string, number>;

beforeAll(async () => {
  // With the value "test", React's code for development would be bundled.
  vi.stubEnv("NODE_ENV", "production");
  const { output } = (await build({ logLevel: "warn", build: { write: false } })) as Rolldown.RolldownOutput;
  chunks = output.filter((file) => file.type === "chunk");
  const compressed = chunks.map(async ({ fileName, code }) => [fileName, await compressedSize(code)] as const);
  sizes = new Map(await Promise.all(compressed));
}, 60_000);

test.each(["en", "de"])("the first page is within its budget, with the texts in %s", (language) => {
  expect(total(firstPage(language))).toBeLessThan(BUDGET_OF_FIRST_PAGE);
});

test("what each screen adds is within its budget", () => {
  const first = firstPage("en");
  const fleet = [...first, ...scriptsOf("screens/shell.tsx", "screens/fleet.tsx")];
  const added: [string, number][] = [["screens/fleet.tsx", total([...fleet, ...scriptsOf(OF_FLEET)], first)]];
  for (const { facadeModuleId } of chunks) {
    const screen = facadeModuleId?.match(/screens\/.+$/)?.[0];
    if (screen === undefined) continue;
    // Those of a plant, and those of administrators, are within a frame of their own.
    const frame = screen.replace(/(plant|admin)-.+\./, "$1.");
    added.push([screen, total(scriptsOf(frame, screen), fleet)]);
  }
  expect(added.length).toBeGreaterThan(30);
  expect(added.filter(([, size]) => size > BUDGET_OF_SCREEN)).toEqual([]);
});

/** Return the names of the scripts that every page loads, with the login. */
function firstPage(language: string): string[] {
  return scriptsOf("console/index.html", `i18n/${language}/index.ts`);
}

/** Return the names of the scripts of modules that are loaded by themselves, and of all that these import. */
function scriptsOf(...modules: string[]): string[] {
  const found = new Set(modules.map((module) => chunkOf(({ facadeModuleId }) => !!facadeModuleId?.endsWith(module))));
  for (const { imports } of found) for (const name of imports) found.add(chunkOf(({ fileName }) => fileName === name));
  return [...found].map(({ fileName }) => fileName);
}

function chunkOf(isWanted: (chunk: Rolldown.OutputChunk) => boolean): Rolldown.OutputChunk {
  const chunk = chunks.find(isWanted);
  if (chunk === undefined) throw new Error("the build has no such chunk");
  return chunk;
}

/** Return the bytes of scripts, without those that are loaded already. */
function total(names: string[], known: string[] = []): number {
  return [...new Set(names)].reduce((sum, name) => sum + (known.includes(name) ? 0 : (sizes.get(name) ?? 0)), 0);
}

async function compressedSize(code: string): Promise<number> {
  const stream = new Blob([code]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}
