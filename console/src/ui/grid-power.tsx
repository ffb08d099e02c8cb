import { sign, unsignedPower } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";

/** A power at the grid, in kW: its amount, and whether it is imported or exported. */
export function GridPower({ kilowatts }: { kilowatts: number | null }) {
  const texts = useTexts();
  const locale = useLocale();
  return (
    <>
      {unsignedPower(kilowatts, locale)} <span className="fine">{texts.fleet.gridWord(sign(kilowatts))}</span>
    </>
  );
}
