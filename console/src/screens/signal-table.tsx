import { useState } from "react";
import { exact } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { decoded, fieldOf, isPlausible, type Signal } from "../signals";
import { Section } from "../ui/section";
import { Table } from "../ui/table";
import { SignalCells } from "./signal-cells";

/** The signals of a template, and on request what is stored for values that the user enters. */
export function SignalTable({ signals }: { signals: readonly Signal[] }) {
  const texts = useTexts();
  const [isTrying, setIsTrying] = useState(false);
  const [raw, setRaw] = useState<Record<string, string>>({});
  // Signals that read the same field have its value in common; it is entered at the first of them.
  const firstOf = new Map([...signals].reverse().map((signal) => [fieldOf(signal), signal]));
  return (
    <Section
      title={texts.templates.signals}
      tools={
        <button type="button" aria-pressed={isTrying} onClick={() => setIsTrying(!isTrying)}>
          {texts.templates.try}
        </button>
      }
    >
      {isTrying && <p className="fine">{texts.templates.tryHelp}</p>}
      <Table
        label={texts.templates.signals}
        headings={[
          texts.templates.signal,
          texts.templates.field,
          ...(isTrying ? [texts.templates.raw, texts.templates.stored] : []),
          texts.templates.properties,
        ]}
      >
        {signals.map((signal) => {
          const field = fieldOf(signal);
          return (
            <tr key={signal.key}>
              <SignalCells signal={signal} />
              {isTrying && (
                <>
                  <td>
                    {firstOf.get(field) === signal && (
                      <input
                        className="raw"
                        aria-label={texts.templates.rawOf(field)}
                        value={raw[field] ?? ""}
                        inputMode="decimal"
                        autoComplete="off"
                        onChange={({ target }) => setRaw((before) => ({ ...before, [field]: target.value }))}
                      />
                    )}
                  </td>
                  <td>
                    <output aria-label={texts.templates.storedOf(signal.key)}>
                      <Stored signal={signal} raw={raw[field]?.trim() ?? ""} />
                    </output>
                  </td>
                </>
              )}
              <td className="wrap">
                <Properties signal={signal} />
              </td>
            </tr>
          );
        })}
      </Table>
    </Section>
  );
}

/** The value that is stored for a raw value, or that nothing is. */
function Stored({ signal, raw }: { signal: Signal; raw: string }) {
  const texts = useTexts();
  const locale = useLocale();
  if (raw === "") return null;
  const value = decoded(signal, raw);
  if (value === null) return texts.templates.nothing;
  const symbol = signal.symbols?.[String(value)];
  return (
    <>
      {exact(value, signal.unit ?? null, locale)}
      {symbol !== undefined && <span className="fine">{symbol}</span>}
      {signal.bit !== undefined && <span className="fine">{texts.templates.bitValue(value === 1)}</span>}
      {!isPlausible(signal, value) && <span className="fine">{texts.templates.implausible}</span>}
    </>
  );
}

/** What a template says about a signal beside its name and field. */
function Properties({ signal }: { signal: Signal }) {
  const texts = useTexts();
  const locale = useLocale();
  const { unit, scale, offset, min, max, kind, role, severity, invert, symbols } = signal;
  const number = (value: number) => exact(value, null, locale);
  const limits =
    [min, max].some((limit) => limit !== undefined) &&
    [min, max].map((limit) => (limit === undefined ? "" : number(limit)));
  const parts = [
    unit,
    scale !== undefined && `× ${number(scale)}`,
    offset !== undefined && (offset < 0 ? `− ${number(-offset)}` : `+ ${number(offset)}`),
    limits && `${limits[0]} … ${limits[1]}`,
    kind === "counter" && texts.templates.kinds.counter,
    role !== undefined && texts.templates.roles[role],
    severity !== undefined && texts.severity[severity],
    invert && texts.templates.inverted,
    symbols &&
      Object.entries(symbols)
        .map(([value, label]) => `${value} = ${label}`)
        .join(", "),
  ];
  return parts.filter(Boolean).join(" · ");
}
