import { useState } from "react";
import { localText, parseLocal } from "../format/zones";
import { useTexts } from "../i18n";
import type { Range } from "../plants";
import { Buttons, Form } from "../ui/form";
import { TimeFields } from "../ui/time-fields";

interface Props {
  range: Range;
  timeZone: string;
  onChoose: (range: Range) => void;
}

/** The fields of the picker: they begin with what is shown when it is opened. */
export function RangeForm({ range, timeZone, onChoose }: Props) {
  const texts = useTexts();
  const [from, setFrom] = useState(localText(timeZone, Date.parse(range.from)));
  const [to, setTo] = useState(localText(timeZone, Date.parse(range.to)));
  const [start, end] = [parseLocal(timeZone, from, range.from), parseLocal(timeZone, to, range.to)];
  return (
    <Form
      className="panel"
      onSubmit={() => {
        if (start === undefined || end === undefined || start >= end) return;
        onChoose({ from: new Date(start).toISOString(), to: new Date(end).toISOString() });
      }}
    >
      <TimeFields timeZone={timeZone} from={from} to={to} start={start} required onFrom={setFrom} onTo={setTo} />
      <Buttons action={texts.history.show} disabled={false} />
    </Form>
  );
}
