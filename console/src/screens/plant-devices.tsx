import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate, useSearch } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { apiOf, dataOf } from "../api/client";
import { actionsOf, type DeviceTemplate, type SubDevice, subDevicesQuery, templatesQuery } from "../devices";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { unregisteredQuery, useTimeZone } from "../plants";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { Confirm } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { lazyPart } from "../ui/lazy-part";
import { useNow } from "../ui/now";
import { Pager } from "../ui/pager";
import { SearchField } from "../ui/search-field";
import { Section } from "../ui/section";
import { DeviceState } from "../ui/state";
import { ListTable } from "../ui/table";
import { CommandDialog } from "./command-dialog";
import { Commands } from "./plant-commands";
import { RegisterDialog } from "./register-dialog";
import { UnknownDevice } from "./unknown-device";

const route = getRouteApi("/inside/o/$slug");
const DeviceDialog = lazyPart(async () => (await import("./device-dialog")).DeviceDialog);
const plantRoute = getRouteApi("/inside/o/$slug/plants/$plantId");

/** One array, so that nothing is computed again while the templates are read. */
const NO_TEMPLATES: DeviceTemplate[] = [];

/** A plant may name a thousand devices that are not registered. */
const SHOWN = 20;

/** The tab of a plant with its sub-devices. */
export function PlantDevicesScreen() {
  const { plantId } = plantRoute.useParams();
  return <PlantDevices plantId={plantId} />;
}

/** The plant's sub-devices, their commands, and devices of its messages that wait for their registration. */
export function PlantDevices({ plantId }: { plantId: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(1);
  const { user, organization } = route.useRouteContext();
  const timeZone = useTimeZone(organization, plantId);
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  // Both pages with devices have these in their URL.
  const { q, page } = useSearch({ strict: false });
  const devices = useQuery({ ...subDevicesQuery(organization.id, plantId, { q, page }), refetchInterval: 10_000 });
  const unregistered = useQuery({ ...unregisteredQuery(organization.id, plantId), refetchInterval: 10_000 });
  const templates = useQuery(templatesQuery);
  const [shown, setShown] = useState(SHOWN);
  const [registering, setRegistering] = useState<{ externalId: string; fields: string[] } | null>(null);
  const [commanding, setCommanding] = useState<SubDevice | null>(null);
  const [changing, setChanging] = useState<SubDevice | null>(null);
  const [deleting, setDeleting] = useState<SubDevice | null>(null);
  const isOperator = mayAct(user, organization, "OPERATOR");
  const templateOf = (device: SubDevice) => templates.data?.find(({ id }) => id === device.templateId);
  return (
    <>
      <Failure error={devices.error ?? unregistered.error ?? templates.error} />
      {unregistered.data?.slice(0, shown).map((device) => (
        <UnknownDevice
          key={device.externalId}
          organizationId={organization.id}
          plantId={plantId}
          device={device}
          templates={templates.data ?? NO_TEMPLATES}
          mayRegister={isOperator}
          onChoose={() => setRegistering(device)}
        />
      ))}
      {unregistered.data !== undefined && unregistered.data.length > shown && (
        <div className="toolbar">
          <button type="button" onClick={() => setShown(shown + SHOWN)}>
            {texts.groups.more}
          </button>
          <span className="fine">{texts.import.more(count(unregistered.data.length - shown, locale))}</span>
        </div>
      )}
      <Section
        title={texts.devices.title}
        tools={
          isOperator && (
            <button type="button" onClick={() => setRegistering({ externalId: "", fields: [] })}>
              {texts.devices.register}
            </button>
          )
        }
      >
        {(q !== undefined || (devices.data?.meta.totalPages ?? 0) > 1) && (
          <search className="toolbar">
            <SearchField
              label={texts.devices.search}
              value={q}
              onSearch={(text) =>
                navigate({ to: ".", search: (before) => ({ ...before, q: text, page: undefined }), replace: true })
              }
            />
          </search>
        )}
        <ListTable
          rows={devices.data?.data}
          none={q === undefined && page === undefined ? texts.devices.none : texts.devices.noneFound}
          headings={[
            texts.devices.device,
            texts.devices.template,
            texts.fleet.status,
            texts.fleet.lastSeen,
            { label: texts.admin.actions, kind: "hidden" },
          ]}
        >
          {(device) => (
            <tr key={device.id}>
              <th scope="row">
                {device.name}
                <span className="fine">{[device.externalId, device.serialNumber].filter(Boolean).join(" · ")}</span>
              </th>
              <td>{templateOf(device)?.name ?? texts.devices.types[device.type]}</td>
              <td>
                <DeviceState status={device.status} />
              </td>
              <td>
                <Age time={device.lastSeenAt} now={now} timeZone={timeZone} short />
              </td>
              <td className="number">
                {isOperator && (
                  <div className="toolbar actions">
                    {actionsOf(templateOf(device)).length > 0 && (
                      <button type="button" onClick={() => setCommanding(device)}>
                        {texts.devices.command}
                      </button>
                    )}
                    <button type="button" onClick={() => setChanging(device)}>
                      {texts.admin.change}
                    </button>
                    <button type="button" onClick={() => setDeleting(device)}>
                      {texts.groups.delete}
                    </button>
                  </div>
                )}
              </td>
            </tr>
          )}
        </ListTable>
        <Pager
          meta={devices.data?.meta}
          onPage={(next) => navigate({ to: ".", search: (before) => ({ ...before, page: next }) })}
        />
      </Section>
      <Commands organizationId={organization.id} plantId={plantId} timeZone={timeZone} />
      {registering !== null && (
        <RegisterDialog
          organizationId={organization.id}
          plantId={plantId}
          {...registering}
          onClose={() => setRegistering(null)}
        />
      )}
      <Suspense>{changing !== null && <DeviceDialog device={changing} onClose={() => setChanging(null)} />}</Suspense>
      {deleting !== null && (
        <Confirm
          title={texts.groups.deleteTitle(deleting.name)}
          consequence={texts.devices.deleteConsequence}
          name={deleting.name}
          action={texts.groups.delete}
          run={async () => {
            const params = { path: { plantId, externalId: deleting.externalId } };
            await dataOf(
              apiOf(organization.id).DELETE("/api/v1/plants/{plantId}/sub-devices/{externalId}", { params }),
            );
            await queryClient.invalidateQueries({ queryKey: [organization.id] });
          }}
          onClose={() => setDeleting(null)}
        />
      )}
      {commanding !== null && (
        <CommandDialog
          device={commanding}
          actions={actionsOf(templateOf(commanding))}
          onClose={() => setCommanding(null)}
        />
      )}
    </>
  );
}
