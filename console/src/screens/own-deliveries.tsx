import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTexts } from "../i18n";
import { ownDeliveriesQuery } from "../people";
import { DeliveryCells } from "../ui/delivery-cells";
import { Failure } from "../ui/failure";
import { Pager } from "../ui/pager";
import { Section } from "../ui/section";
import { ListTable } from "../ui/table";

/** The notifications to the user, with what became of each. */
export function OwnDeliveries() {
  const texts = useTexts();
  const [page, setPage] = useState(1);
  const list = useQuery(ownDeliveriesQuery(page));
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
            <DeliveryCells delivery={delivery} />
          </tr>
        )}
      </ListTable>
      <Pager meta={list.data?.meta} onPage={setPage} />
    </Section>
  );
}
