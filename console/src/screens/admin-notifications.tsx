import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { deliveriesQuery, userQuery } from "../admin";
import { useTexts } from "../i18n";
import { DeliveryCells } from "../ui/delivery-cells";
import { Failure } from "../ui/failure";
import { PageHead } from "../ui/page-head";
import { Pager } from "../ui/pager";
import { ListTable } from "../ui/table";
import { Total } from "../ui/total";

const route = getRouteApi("/inside/admin/notifications");

/** All notifications that were sent or wait, of every user. */
export function NotificationsScreen() {
  const texts = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const list = useQuery(deliveriesQuery(search.page));
  return (
    <>
      <PageHead title={texts.admin.notifications} of="Gridfleet" />
      <p className="fine">{texts.admin.notificationsHelp}</p>
      <Failure error={list.error} />
      <Total total={list.data?.meta.total} text={texts.admin.countDeliveries} />
      <ListTable
        rows={list.data?.data}
        none={texts.admin.noDeliveries}
        label={texts.admin.notifications}
        headings={[
          texts.admin.subject,
          texts.me.channel,
          texts.admin.result,
          texts.admin.created,
          texts.admin.recipient,
        ]}
      >
        {(delivery) => (
          <tr key={delivery.id}>
            <DeliveryCells delivery={delivery} />
            <td>
              <Recipient userId={delivery.userId} />
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={list.data?.meta} onPage={(page) => navigate({ search: { page } })} />
    </>
  );
}

/** The name of a user, as soon as it is loaded. */
function Recipient({ userId }: { userId: string }) {
  const { data } = useQuery(userQuery(userId));
  return (
    data && (
      <>
        {data.name}
        <span className="fine">{data.email}</span>
      </>
    )
  );
}
