import { useEffect, useRef, useState } from "react";

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
  // What the list is searched for. Only another text of the URL replaces that of the field: the one that was searched for last may
  // lack a blank or a letter that the user has typed since.
  const searched = useRef(value);
  useEffect(() => {
    if (value === searched.current) return;
    searched.current = value;
    setText(value);
  }, [value]);
  useEffect(() => {
    if (text.trim() === searched.current) return;
    const timer = setTimeout(() => {
      searched.current = text.trim();
      onSearch(text.trim() || undefined);
    }, 250);
    return () => clearTimeout(timer);
  }, [text, onSearch]);
  return (
    <label className="grow">
      {label}
      <input type="search" value={text} maxLength={100} onChange={(event) => setText(event.target.value)} />
    </label>
  );
}
