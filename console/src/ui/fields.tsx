import { type ComponentProps, useId } from "react";
import { useTexts } from "../i18n";

type FieldProps = ComponentProps<"input"> & {
  label: string;
  /** What to enter, below the field. */
  hint?: string;
};

/** A field of one line with its label. Browsers fill in former values only if `autoComplete` says which. */
export function Field({ label, hint, autoComplete = "off", ...input }: FieldProps) {
  const id = useId();
  const field = (
    <label>
      {label}
      <input autoComplete={autoComplete} {...(hint !== undefined && { "aria-describedby": id })} {...input} />
    </label>
  );
  if (hint === undefined) return field;
  return (
    <div className="field">
      {field}
      <span id={id} className="fine">
        {hint}
      </span>
    </div>
  );
}

/** A field for a number that need not be whole, with its label. */
export function NumberField(field: FieldProps) {
  return <Field type="number" step="any" {...field} />;
}

/** A field of several lines with its label. */
export function TextField({ label, ...textarea }: ComponentProps<"textarea"> & { label: string }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea id={id} {...textarea} />
    </div>
  );
}

/** A box with its label. */
export function CheckField({ children, ...input }: ComponentProps<"input">) {
  return (
    <label className="check">
      <input type="checkbox" {...input} />
      {children}
    </label>
  );
}

interface OptionsProps<T extends string> {
  values: readonly T[];
  labels: Readonly<Record<T, string>>;
}

/** The options of a field that offers some values. */
export function Options<T extends string>({ values, labels }: OptionsProps<T>) {
  return values.map((value) => (
    <option key={value} value={value}>
      {labels[value]}
    </option>
  ));
}

/** A field that offers some values, with its label. The children are options before these. */
export function SelectField<T extends string>({
  label,
  values,
  labels,
  children,
  ...select
}: ComponentProps<"select"> & OptionsProps<T> & { label: string }) {
  return (
    <label>
      {label}
      <select {...select}>
        {children}
        <Options values={values} labels={labels} />
      </select>
    </label>
  );
}

interface FilterProps<T extends string> extends OptionsProps<T> {
  label: string;
  /** undefined: all. */
  value: T | undefined;
  onChoose: (value: T | undefined) => void;
}

/** A field that filters a list by one of some values. */
export function FilterField<T extends string>({ value, onChoose, ...field }: FilterProps<T>) {
  const texts = useTexts();
  return (
    <SelectField
      {...field}
      value={value ?? ""}
      onChange={({ target }) => onChoose(field.values.find((one) => one === target.value))}
    >
      <option value="">{texts.fleet.all}</option>
    </SelectField>
  );
}

/** A field for a time zone, which suggests those that the browser knows. */
export function TimeZoneField(input: ComponentProps<"input">) {
  const texts = useTexts();
  return (
    <label>
      {texts.newPlant.timeZone}
      <input name="timeZone" list="time-zones" {...input} />
      <datalist id="time-zones">
        {Intl.supportedValuesOf("timeZone").map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
    </label>
  );
}
