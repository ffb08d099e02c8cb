import { age, dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";

interface Props {
  /** null: it has never been. */
  time: string | null;
  /** The present in epoch milliseconds. */
  now: number;
  timeZone: string;
  /** In columns of tables, and only there: `7 sec. ago` instead of `7 seconds ago`. A narrow one is `vor 2 m` in German. */
  short?: boolean;
}

/** How long ago something was; the time itself is shown on hover. */
export function Age({ time, now, timeZone, short = false }: Props) {
  const locale = useLocale();
  const texts = useTexts();
  if (time === null) return texts.fleet.never;
  return (
    <time dateTime={time} title={`${dateTime(time, timeZone, locale)} · ${dateTime(time, "UTC", locale)}`}>
      {age(time, now, locale, short ? "short" : "long")}
    </time>
  );
}
