import { useTexts } from "../i18n";
import { fieldOf, type Signal } from "../signals";

/** The first cells of a row about a signal: its name, and the field of messages that it reads. */
export function SignalCells({ signal }: { signal: Signal }) {
  const texts = useTexts();
  return (
    <>
      <th scope="row">
        {texts.templates.labelOf(signal.label ?? signal.key)}
        {signal.label !== undefined && <span className="fine">{signal.key}</span>}
      </th>
      <td>
        <code>{fieldOf(signal)}</code>
        {signal.bit !== undefined && <span className="fine">{texts.templates.bitNumber(signal.bit)}</span>}
      </td>
    </>
  );
}
