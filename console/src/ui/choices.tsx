interface Props<T> {
  /** What is chosen. */
  label: string;
  values: readonly T[];
  /** null: none of them. */
  chosen: T | null;
  labelOf: (value: T) => string;
  onChoose: (value: T) => void;
}

/** Buttons beside each other, one of which is chosen. */
export function Choices<T extends string | number>({ label, values, chosen, labelOf, onChoose }: Props<T>) {
  return (
    <fieldset className="choices">
      <legend className="hidden">{label}</legend>
      {values.map((value) => (
        <button key={value} type="button" aria-pressed={value === chosen} onClick={() => onChoose(value)}>
          {labelOf(value)}
        </button>
      ))}
    </fieldset>
  );
}
