/** Milliseconds. */
const KEPT = 60_000;

/** Without this mark, spreadsheets do not read a file as UTF-8. */
const MARK = "\uFEFF";

/** Let the browser save a text as a file. */
export function saveFile(name: string, text: string): void {
  const address = URL.createObjectURL(
    new Blob([name.endsWith(".csv") ? MARK + text : text], { type: "application/octet-stream" }),
  );
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // Some browsers read it later, such as after a question where to save it.
  setTimeout(() => URL.revokeObjectURL(address), KEPT);
}
