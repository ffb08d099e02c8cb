import { number } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { signWord } from "../metrics";
import type { Signal } from "../signals";

interface Props {
  signal: Signal | undefined;
  value: number | null;
  unit: string | null;
  /** Whether the sign stays before its word, so that numbers beside each other can be compared. */
  isSigned?: boolean;
}

/** A number with its unit, and with a word for its sign, such as importing, if the role of its signal has one. */
export function SignedNumber({ signal, value, unit, isSigned = false }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const words = { grid_power: texts.fleet.gridWord, battery_power: texts.fleet.batteryWord };
  const word = value === null ? "" : signWord(signal, value, words);
  return (
    <>
      {/* Powers have the digits that they have in the energy flow. */}
      {number(
        value !== null && word !== "" && !isSigned ? Math.abs(value) : value,
        locale,
        unit === "kW" ? 3 : undefined,
      )}
      {unit !== null && value !== null && <span className="unit"> {unit}</span>}{" "}
      {word !== "" && <span className="fine">{word}</span>}
    </>
  );
}
