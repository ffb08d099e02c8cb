import { count } from "../format/quantities";
import { useLocale } from "../i18n";

interface Props {
  /** undefined until the list is loaded. */
  total: number | undefined;
  /** Return the total with the name of what is counted, from its text in the user's language and its number. */
  text: (text: string, total: number) => string;
}

/** How many records match the filters of a list. */
export function Total({ total, text }: Props) {
  const locale = useLocale();
  return (
    <p className="fine" role="status">
      {total !== undefined && text(count(total, locale), total)}
    </p>
  );
}
