import type { components } from "../api/schema";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { DeliveryState } from "./state";

/** The cells of a row about a notification: its subject, its channel, what became of it, and when it was created. */
export function DeliveryCells({ delivery }: { delivery: components["schemas"]["NotificationLog"] }) {
  const texts = useTexts();
  const locale = useLocale();
  const channels: Record<string, string> = texts.me.channels;
  return (
    <>
      <th scope="row" className="wrap">
        {delivery.subject}
      </th>
      <td>{channels[delivery.channel.toLowerCase()] ?? delivery.channel}</td>
      <td className="wrap">
        <DeliveryState status={delivery.status} />
        {delivery.error !== null && <span className="fine">{delivery.error}</span>}
      </td>
      <td>{dateTime(delivery.createdAt, "UTC", locale)}</td>
    </>
  );
}
