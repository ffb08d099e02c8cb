import { useTexts } from "../i18n";
import { isSameZone, knownZone, zoneOf } from "../searches/values";
import { SelectField } from "./fields";

interface Props {
  /** As it is stored; the browser may not know it. */
  plantZone: string;
  /** undefined: that of the plant. */
  chosen: string | undefined;
  onChoose: (timeZone: string | undefined) => void;
}

/** The time zone of a page: that of the plant, UTC, that of this browser, or another one that a link names. */
export function TimeZoneChoice({ plantZone, chosen, onChoose }: Props) {
  const texts = useTexts();
  const browserZone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const ownZone = knownZone(plantZone);
  // A zone that has several names is offered once.
  const zones = ["UTC", browserZone, chosen ?? ownZone].filter(
    (zone, index, all) => !isSameZone(zone, ownZone) && all.findIndex((one) => isSameZone(one, zone)) === index,
  );
  const labels = { [browserZone]: texts.history.browserZone(browserZone), UTC: "UTC" };
  return (
    <SelectField
      className="long"
      label={texts.history.timesIn}
      values={zones}
      labels={Object.fromEntries(zones.map((zone) => [zone, labels[zone] ?? zone]))}
      value={zones.find((zone) => chosen !== undefined && isSameZone(zone, chosen)) ?? ""}
      onChange={({ target }) => onChoose(target.value || undefined)}
    >
      <option value="">
        {zoneOf(plantZone) ? texts.history.plantZone(plantZone) : texts.history.unknownZone(plantZone)}
      </option>
    </SelectField>
  );
}
