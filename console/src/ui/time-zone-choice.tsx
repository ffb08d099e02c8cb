import { useTexts } from "../i18n";
import { SelectField } from "./fields";

interface Props {
  plantZone: string;
  /** undefined: that of the plant. */
  chosen: string | undefined;
  onChoose: (timeZone: string | undefined) => void;
}

/** The time zone of a page: that of the plant, UTC, that of this browser, or another one that a link names. */
export function TimeZoneChoice({ plantZone, chosen, onChoose }: Props) {
  const texts = useTexts();
  const browserZone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zones = [...new Set(["UTC", browserZone, chosen ?? plantZone])].filter((zone) => zone !== plantZone);
  const labels = { [browserZone]: texts.history.browserZone(browserZone), UTC: "UTC" };
  return (
    <SelectField
      className="long"
      label={texts.history.timesIn}
      values={zones}
      labels={Object.fromEntries(zones.map((zone) => [zone, labels[zone] ?? zone]))}
      value={chosen === undefined || chosen === plantZone ? "" : chosen}
      onChange={({ target }) => onChoose(target.value || undefined)}
    >
      <option value="">{texts.history.plantZone(plantZone)}</option>
    </SelectField>
  );
}
