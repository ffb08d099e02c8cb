import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Organization, type SandboxPlant, sandboxPlantsQuery } from "../admin";
import { api, dataOf } from "../api/client";
import { exact } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { Confirm } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { PageHead } from "../ui/page-head";
import { Section } from "../ui/section";
import { ListTable } from "../ui/table";
import { OrganizationFinder } from "./organization-finder";
import { SandboxAccessDialog } from "./sandbox-access-dialog";
import { SandboxPlantDialog } from "./sandbox-plant-dialog";

/** The sandbox ESM: its plants, and which organisations have access. */
export function SandboxScreen() {
  const texts = useTexts();
  const [organization, setOrganization] = useState<Organization | null>(null);
  return (
    <>
      <PageHead title={texts.sandbox.title} of="Gridfleet" />
      <p className="fine">{texts.sandbox.help}</p>
      <Section title={texts.sandbox.access}>
        <p className="fine">{texts.sandbox.accessHelp}</p>
        <OrganizationFinder>
          {(one) => (
            <button type="button" onClick={() => setOrganization(one)}>
              {texts.sandbox.access}
              <span className="hidden">{texts.admin.ofNamed(one.name)}</span>
            </button>
          )}
        </OrganizationFinder>
      </Section>
      <Plants />
      {organization !== null && (
        <SandboxAccessDialog organization={organization} onClose={() => setOrganization(null)} />
      )}
    </>
  );
}

function Plants() {
  const texts = useTexts();
  const locale = useLocale();
  const queryClient = useQueryClient();
  const { data, error } = useQuery(sandboxPlantsQuery);
  // null: a new one.
  const [editing, setEditing] = useState<SandboxPlant | null | undefined>();
  const [deleting, setDeleting] = useState<SandboxPlant | null>(null);
  return (
    <Section
      title={texts.groups.plants}
      tools={
        <button type="button" className="primary" onClick={() => setEditing(null)}>
          {texts.sandbox.add}
        </button>
      }
    >
      <Failure error={error} />
      <ListTable
        rows={data}
        none={texts.sandbox.none}
        headings={[
          texts.devices.name,
          texts.sandbox.clientId,
          { label: texts.sandbox.capacity, kind: "number" },
          { label: texts.sandbox.peakPower, kind: "number" },
          texts.sandbox.state,
          { label: texts.admin.actions, kind: "hidden" },
        ]}
      >
        {(plant) => (
          <tr key={plant.id}>
            <th scope="row">
              {plant.name}
              <span className="fine">{plant.externalPlantId}</span>
            </th>
            <td>
              <code>{plant.clientId}</code>
            </td>
            <td className="number">{exact(plant.capacityKwh, "kWh", locale)}</td>
            <td className="number">{exact(plant.fvePeakPowerKwp, "kWp", locale)}</td>
            <td>
              {texts.sandbox.states[plant.esiState]}
              <span className="fine">
                {plant.configEnabled ? texts.sandbox.acceptsPlans : texts.sandbox.refusesPlans}
              </span>
            </td>
            <td>
              <div className="toolbar actions">
                <button
                  type="button"
                  onClick={() => setEditing(plant)}
                  aria-label={texts.admin.changeNamed(plant.name)}
                >
                  {texts.admin.change}
                </button>
                <button
                  type="button"
                  onClick={() => setDeleting(plant)}
                  aria-label={texts.admin.deleteNamed(plant.name)}
                >
                  {texts.groups.delete}
                </button>
              </div>
            </td>
          </tr>
        )}
      </ListTable>
      {editing !== undefined && <SandboxPlantDialog plant={editing} onClose={() => setEditing(undefined)} />}
      {deleting !== null && (
        <Confirm
          title={texts.groups.deleteTitle(deleting.name)}
          consequence={texts.sandbox.deleteConsequence}
          name={deleting.name}
          action={texts.groups.delete}
          run={async () => {
            await dataOf(api.DELETE("/api/v1/svc-esm/admin/plants/{id}", { params: { path: { id: deleting.id } } }));
            await queryClient.invalidateQueries(sandboxPlantsQuery);
          }}
          onClose={() => setDeleting(null)}
        />
      )}
    </Section>
  );
}
