import { dateTime } from "../format/times";
import { useLocale } from "../i18n";

/** A time in a zone, with UTC on hover. */
export function Moment({ time, timeZone }: { time: string; timeZone: string }) {
  const locale = useLocale();
  return (
    <time dateTime={time} title={dateTime(time, "UTC", locale)}>
      {dateTime(time, timeZone, locale)}
    </time>
  );
}
