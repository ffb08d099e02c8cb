import { Suspense, useEffect, useState } from "react";
import { useTexts } from "../i18n";
import { lazyPart } from "../ui/lazy-part";
import type { FinderProps } from "./finder-dialog";

const FinderDialog = lazyPart(async () => (await import("./finder-dialog")).FinderDialog);

/** Open a search over plants, people and pages by a button or Ctrl-K. */
export function Finder(props: FinderProps) {
  const texts = useTexts();
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setIsOpen(true);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <button type="button" className="finder" onClick={() => setIsOpen(true)} aria-keyshortcuts="Control+K">
        {texts.finder.open} <kbd>{texts.finder.keys}</kbd>
      </button>
      {isOpen && (
        <Suspense>
          <FinderDialog {...props} onClose={() => setIsOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
