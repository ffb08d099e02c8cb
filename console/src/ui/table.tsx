import type { CSSProperties, ReactNode } from "react";

/** A heading of a column. */
export type Heading =
  | string
  | {
      label: string;
      /** `number` aligns the heading as its numbers are, `hidden` is read by screen readers alone. */
      kind?: "number" | "hidden";
      /** Shown in place of the label. */
      content?: ReactNode;
    };

interface Props {
  headings: readonly Heading[];
  /** Name of a table whose rows have nothing to focus: the keyboard then reaches the table itself, to scroll it. */
  label?: string;
  /** The rows. */
  children: ReactNode;
}

/** A table with more columns scrolls sideways where the screen is narrow. */
const MOST_OF_CARD = 7;

/** A table. Where the screen is narrow, each row is a card whose values have the headings beside them. */
export function Table({ headings, label, children }: Props) {
  const reached = label === undefined ? {} : { role: "group", "aria-label": label, tabIndex: 0 };
  return (
    <div className={headings.length > MOST_OF_CARD ? "table" : "table records"} {...reached}>
      <table style={labelsOf(headings)}>
        <thead>
          <tr>
            {headings.map((heading) => {
              const { label, kind, content } = typeof heading === "string" ? { label: heading } : heading;
              return (
                <th scope="col" key={label} data-label={label} className={kind === "number" ? "number" : undefined}>
                  {content ?? (kind === "hidden" ? <span className="hidden">{label}</span> : label)}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** Return the headings as properties that the styles show beside values. One of buttons or of a selection says nothing about them. */
function labelsOf(headings: readonly Heading[]): CSSProperties {
  const shown = headings.map((heading) => {
    if (typeof heading === "string") return heading;
    return heading.kind === "hidden" ? undefined : (heading.content ?? heading.label);
  });
  return Object.fromEntries(
    shown.map((text, index) => [`--label-${index + 1}`, typeof text === "string" ? JSON.stringify(text) : undefined]),
  );
}

interface ListProps<T> extends Omit<Props, "children"> {
  /** undefined until they are loaded: nothing is shown. */
  rows: readonly T[] | undefined;
  /** Shown in place of a table without rows. */
  none?: string;
  /** Return the row of a record, with its key. */
  children: (row: T, index: number) => ReactNode;
}

/** A table of records, if there are any. */
export function ListTable<T>({ rows, none, children, ...table }: ListProps<T>) {
  if (rows === undefined) return null;
  if (rows.length === 0) return none === undefined ? null : <p className="fine">{none}</p>;
  return <Table {...table}>{rows.map(children)}</Table>;
}
