import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { actionsOf, type SubDevice, subDevicesQuery, templatesQuery } from "../devices";
import { useTexts } from "../i18n";
import { unregisteredQuery, useTimeZone } from "../plants";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { useNow } from "../ui/now";
import { Section } from "../ui/section";
import { DeviceState } from "../ui/state";
import { ListTable } from "../ui/table";
import { CommandDialog } from "./command-dialog";
import { Commands } from "./plant-commands";
import { RegisterDialog } from "./register-dialog";

const route = getRouteApi("/inside/o/$slug");
const plantRoute = getRouteApi("/inside/o/$slug/plants/$plantId");

/** The tab of a plant with its sub-devices. */
export function PlantDevicesScreen() {
  return <PlantDevices plantId={plantRoute.useParams().plantId} />;
}

/** The plant's sub-devices, their commands, and devices of its messages that wait for their registration. */
export function PlantDevices({ plantId }: { plantId: string }) {
  const texts = useTexts();
  const now = useNow(1);
  const { user, organization } = route.useRouteContext();
  const timeZone = useTimeZone(organization.id, plantId);
  const devices = useQuery({ ...subDevicesQuery(organization.id, plantId), refetchInterval: 10_000 });
  const unregistered = useQuery({ ...unregisteredQuery(organization.id, plantId), refetchInterval: 10_000 });
  const templates = useQuery(templatesQuery);
  // An external id: that of the device that is registered; "" for one that has sent nothing yet.
  const [registering, setRegistering] = useState<string | null>(null);
  const [commanding, setCommanding] = useState<SubDevice | null>(null);
  const mayRegister = mayAct(user, organization, "ORG_ADMIN");
  const mayCommand = mayAct(user, organization, "OPERATOR");
  const templateOf = (device: SubDevice) => templates.data?.find(({ id }) => id === device.templateId);
  return (
    <>
      <Failure error={devices.error ?? unregistered.error ?? templates.error} />
      {unregistered.data?.map((device) => (
        <div className="hint toolbar" key={device.externalId}>
          <span className="grow">{texts.devices.unknown(device.externalId, device.count)}</span>
          {mayRegister && (
            <button type="button" onClick={() => setRegistering(device.externalId)}>
              {texts.devices.registerNamed(device.externalId)}
            </button>
          )}
        </div>
      ))}
      <Section
        title={texts.devices.title}
        tools={
          mayRegister && (
            <button type="button" onClick={() => setRegistering("")}>
              {texts.devices.register}
            </button>
          )
        }
      >
        <ListTable
          rows={devices.data?.data}
          none={texts.devices.none}
          headings={[
            texts.devices.device,
            texts.devices.template,
            texts.fleet.status,
            texts.fleet.lastSeen,
            { label: texts.devices.command, kind: "hidden" },
          ]}
        >
          {(device) => (
            <tr key={device.id}>
              <th scope="row">
                {device.name}
                <span className="fine">{device.externalId}</span>
              </th>
              <td>{templateOf(device)?.name ?? texts.devices.types[device.type]}</td>
              <td>
                <DeviceState status={device.status} />
              </td>
              <td>
                <Age time={device.lastSeenAt} now={now} timeZone={timeZone} />
              </td>
              <td className="number">
                {mayCommand && actionsOf(templateOf(device)).length > 0 && (
                  <button type="button" onClick={() => setCommanding(device)}>
                    {texts.devices.command}
                  </button>
                )}
              </td>
            </tr>
          )}
        </ListTable>
      </Section>
      {devices.data?.data
        .filter((device) => actionsOf(templateOf(device)).length > 0)
        .map((device) => (
          <Commands key={device.id} device={device} timeZone={timeZone} />
        ))}
      {registering !== null && (
        <RegisterDialog
          organizationId={organization.id}
          plantId={plantId}
          externalId={registering}
          onClose={() => setRegistering(null)}
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
