import { number } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { signWord } from "../metrics";
import type { Signal } from "../signals";

interface Props {
  signal: Signal | undefined;
  value: number | null;
  unit?: string | null;
}

/** A number with its unit. Where its signal's role gives the sign a word, such as importing, the word replaces the sign. */
export function SignedNumber({ signal, value, unit = null }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const words = { grid_power: texts.fleet.gridWord, battery_power: texts.fleet.batteryWord };
  const word = value === null ? "" : signWord(signal, value, words);
  return (
    <>
      {number(word === "" || value === null ? value : Math.abs(value), locale)}
      {unit !== null && <span className="unit"> {unit}</span>} {word !== "" && <span className="fine">{word}</span>}
    </>
  );
}
