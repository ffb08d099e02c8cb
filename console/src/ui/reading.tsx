import { useIsFetching } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useTexts } from "../i18n";

/** Milliseconds that reading may take before the page says so. */
const SLOW = 700;

/**
 * Says that the page reads what it has not read before, such as another range, if that takes long. Until it has it, lists and
 * charts show what was chosen before.
 */
export function Reading() {
  const texts = useTexts();
  const isReading = useIsFetching({ predicate: ({ state }) => state.data === undefined }) > 0;
  const [isSlow, setIsSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setIsSlow(isReading), isReading ? SLOW : 0);
    return () => clearTimeout(timer);
  }, [isReading]);
  return (
    <p className="reading" aria-live="polite">
      {isSlow && texts.loading}
    </p>
  );
}
