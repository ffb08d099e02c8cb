import { useTexts } from "../i18n";
import { knownZone, nameOfZone, zoneOf } from "../searches/values";
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
  const browserZone = nameOfZone();
  const ownZone = knownZone(plantZone);
  const shown = chosen ?? ownZone;
  // By the browser's names, so that a zone that has several is offered once.
  const zones = new Map(["UTC", browserZone, shown].map((zone) => [nameOfZone(zone), zone]));
  zones.delete(nameOfZone(ownZone));
  return (
    <SelectField
      className="long"
      label={texts.history.timesIn}
      values={[...zones.keys()]}
      labels={Object.fromEntries([...zones, [browserZone, texts.history.browserZone(browserZone)], ["UTC", "UTC"]])}
      value={zones.has(nameOfZone(shown)) ? nameOfZone(shown) : ""}
      onChange={({ target }) => onChoose(target.value || undefined)}
    >
      <option value="">
        {zoneOf(plantZone) ? texts.history.plantZone(plantZone) : texts.history.unknownZone(plantZone)}
      </option>
    </SelectField>
  );
}
