import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { ownDeliveriesQuery } from "../people";
import { Failure } from "../ui/failure";
import { Pager } from "../ui/pager";
import { Section } from "../ui/section";
import { DeliveryState } from "../ui/state";
import { ListTable } from "../ui/table";

/** The notifications to the user, with what became of each. */
export function OwnDeliveries() {
  const texts = useTexts();
  const locale = useLocale();
  const [page, setPage] = useState(1);
  const list = useQuery(ownDeliveriesQuery(page));
  const channels: Record<string, string> = texts.me.channels;
  return (
    <Section title={texts.me.deliveries}>
      <p className="fine">{texts.me.deliveriesHelp}</p>
      <Failure error={list.error} />
      <ListTable
        rows={list.data?.data}
        none={texts.me.noDeliveries}
        label={texts.me.deliveries}
        headings={[texts.admin.subject, texts.me.channel, texts.admin.result, texts.audit.time("UTC")]}
      >
        {(delivery) => (
          <tr key={delivery.id}>
            <th scope="row" className="wrap">
              {delivery.subject}
            </th>
            <td>{channels[delivery.channel.toLowerCase()] ?? delivery.channel}</td>
            <td className="wrap">
              <DeliveryState status={delivery.status} />
              {delivery.error !== null && <span className="fine">{delivery.error}</span>}
            </td>
            <td>{dateTime(delivery.createdAt, "UTC", locale)}</td>
          </tr>
        )}
      </ListTable>
      <Pager meta={list.data?.meta} onPage={setPage} />
    </Section>
  );
}
