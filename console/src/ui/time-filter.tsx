import { useState } from "react";
import { dateTime } from "../format/times";
import { localText, parseLocal } from "../format/zones";
import { useLocale, useTexts } from "../i18n";
import { Buttons, Form } from "./form";
import { Picker } from "./picker";
import { TimeFields } from "./time-fields";

/** The times between which a list shows records, in ISO 8601; undefined: no limit. */
export interface Times {
  from?: string | undefined;
  to?: string | undefined;
}

interface Props {
  times: Times;
  /** Zone of the fields and of what is shown. */
  timeZone: string;
  onChoose: (times: Times) => void;
}

/** Two times that filter a list; each may be missing. Give it another key if the times change, because fields keep their values. */
export function TimeFilter({ times, timeZone, onChoose }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const shown = (time: string | undefined) => (time === undefined ? "" : localText(timeZone, Date.parse(time)));
  const [from, setFrom] = useState(shown(times.from));
  const [to, setTo] = useState(shown(times.to));
  const [start, end] = [parseLocal(timeZone, from, times.from), parseLocal(timeZone, to, times.to)];
  const isFiltered = times.from !== undefined || times.to !== undefined;
  return (
    <div className="toolbar">
      <Picker
        label={
          isFiltered
            ? texts.alerts.between(
                times.from && dateTime(times.from, timeZone, locale),
                times.to && dateTime(times.to, timeZone, locale),
              )
            : texts.alerts.anyTime
        }
      >
        <Form
          className="panel"
          onSubmit={() => {
            if (start !== undefined && end !== undefined && start >= end) return;
            onChoose({ from: isoOf(start), to: isoOf(end) });
          }}
        >
          <TimeFields timeZone={timeZone} from={from} to={to} start={start} onFrom={setFrom} onTo={setTo} />
          <Buttons action={texts.history.show} disabled={false} />
        </Form>
      </Picker>
      {isFiltered && (
        <button type="button" onClick={() => onChoose({ from: undefined, to: undefined })}>
          {texts.alerts.clearTimes}
        </button>
      )}
    </div>
  );
}

function isoOf(time: number | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time).toISOString();
}
