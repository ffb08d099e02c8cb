import { localText } from "../format/zones";
import { useTexts } from "../i18n";
import { Field } from "./fields";

interface Props {
  timeZone: string;
  /** What the fields contain: times by the clocks of the zone, as browsers write them. */
  from: string;
  to: string;
  /** The first time in epoch milliseconds; undefined if it is missing. */
  start: number | undefined;
  required?: boolean;
  onFrom: (from: string) => void;
  onTo: (to: string) => void;
}

/** Two fields for the times between which something is shown. The second is later than the first. */
export function TimeFields({ timeZone, from, to, start, required = false, onFrom, onTo }: Props) {
  const texts = useTexts();
  return (
    <>
      <Field
        label={texts.history.from(timeZone)}
        type="datetime-local"
        required={required}
        min="1970-01-02T00:00"
        max="9999-12-30T00:00"
        value={from}
        onChange={({ target }) => onFrom(target.value)}
      />
      <Field
        label={texts.history.to(timeZone)}
        type="datetime-local"
        required={required}
        min={start === undefined ? "1970-01-02T00:00" : localText(timeZone, start + 60_000)}
        max="9999-12-31T00:00"
        value={to}
        onChange={({ target }) => onTo(target.value)}
      />
    </>
  );
}
