import { useEffect, useState } from "react";

interface Props {
  label: string;
  /** The text of the URL. */
  value: string | undefined;
  /** Called some time after the last key, with undefined for no text. */
  onSearch: (text: string | undefined) => void;
}

/** A field whose text filters a list. */
export function SearchField({ label, value = "", onSearch }: Props) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text.trim() === value) return;
    const timer = setTimeout(() => onSearch(text.trim() || undefined), 250);
    return () => clearTimeout(timer);
  }, [text, value, onSearch]);
  return (
    <label className="grow">
      {label}
      <input type="search" value={text} maxLength={100} onChange={(event) => setText(event.target.value)} />
    </label>
  );
}
