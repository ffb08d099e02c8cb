import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { apiOf, dataOf, given } from "../api/client";
import type { components } from "../api/schema";
import { subDevicesQuery, templatesQuery } from "../devices";
import { sendCommand } from "../first-message";
import { useTexts } from "../i18n";
import { latestQuery, type Plant, plantQuery, refusedQuery, unregisteredQuery } from "../plants";
import { CopyField } from "../ui/copy-field";
import { Failure } from "../ui/failure";
import { Field, SelectField, TimeZoneField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { PageHead } from "../ui/page-head";
import { Steps } from "../ui/steps";
import { ForAdministrators } from "./for-administrators";
import { PlantDevices } from "./plant-devices";
import { ProvisioningPackage } from "./provisioning-package";

const route = getRouteApi("/inside/o/$slug/plants/new");
const METHODS = ["MTLS", "TOKEN", "PASSWORD"] as const;
const TYPES = ["GATEWAY", "CONTROLLER", "SENSOR", "ACTUATOR"] as const;

/** Register a plant, its devices and its credentials, and wait for its first message. */
export function NewPlantScreen() {
  const texts = useTexts();
  return (
    <ForAdministrators title={texts.newPlant.title}>
      <NewPlant />
    </ForAdministrators>
  );
}

function NewPlant() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  const { slug } = route.useParams();
  const { plant: plantId, step = 1 } = route.useSearch();
  return (
    <>
      <PageHead title={texts.newPlant.title} of={organization.name} />
      <Steps names={texts.newPlant.steps} current={step} />
      {plantId === undefined && (
        <p>
          {texts.import.hint}{" "}
          <Link to="/o/$slug/plants/import" params={{ slug }}>
            {texts.import.title}
          </Link>
        </p>
      )}
      {/* Back and forward may lead to another plant: nothing of the former one stays, such as its package. */}
      {plantId === undefined ? <RegisterForm /> : <LaterSteps key={plantId} plantId={plantId} step={step} />}
    </>
  );
}

function RegisterForm() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  const navigate = route.useNavigate();
  const register = useMutation({
    mutationFn: (form: FormData) =>
      dataOf(
        apiOf(organization.id).POST("/api/v1/plants", {
          body: {
            name: String(form.get("name")),
            serialNumber: String(form.get("serialNumber")),
            type: String(form.get("type")) as components["schemas"]["PlantType"],
            authMethod: String(form.get("authMethod")) as components["schemas"]["AuthMethod"],
            metadata: {},
            ...given({ timeZone: String(form.get("timeZone")) || undefined }),
          },
        }),
      ),
    onSuccess: ({ id }) => navigate({ search: { plant: id, step: 2 } }),
  });
  return (
    <Form className="card form" onSubmit={(values) => register.mutate(values)}>
      <Field label={texts.newPlant.name} name="name" required maxLength={100} />
      <Field label={texts.newPlant.serialNumber} name="serialNumber" required maxLength={50} />
      <SelectField label={texts.newPlant.type} name="type" values={TYPES} labels={texts.newPlant.types} />
      <SelectField
        label={texts.credentials.method}
        name="authMethod"
        values={METHODS}
        labels={texts.credentials.methods}
      />
      <TimeZoneField placeholder={texts.newPlant.zoneOfOrganization} />
      <Failure error={register.error} />
      <Buttons action={texts.newPlant.register} disabled={register.isPending} />
    </Form>
  );
}

function LaterSteps({ plantId, step }: { plantId: string; step: number }) {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  const navigate = route.useNavigate();
  const plant = useQuery(plantQuery(organization.id, plantId));
  if (plant.data === undefined) return <Failure error={plant.error} />;
  const goTo = (next: 2 | 3 | 4) => navigate({ search: { plant: plantId, step: next } });
  if (step === 2) {
    return (
      <>
        <p>{texts.newPlant.devicesHelp}</p>
        <PlantDevices plantId={plantId} />
        <div className="toolbar">
          <button type="button" className="primary" onClick={() => goTo(3)}>
            {texts.newPlant.next}
          </button>
        </div>
      </>
    );
  }
  if (step === 3) return <ProvisioningPackage slug={organization.slug} plant={plant.data} onSaved={() => goTo(4)} />;
  return <FirstMessage plant={plant.data} />;
}

/** What the plant has sent until now: its first values, or why its messages were refused. */
function FirstMessage({ plant }: { plant: Plant }) {
  const texts = useTexts();
  const { slug } = route.useParams();
  const { id: plantId, organizationId } = plant;
  const often = { refetchInterval: 2_000 };
  const latest = useQuery({ ...latestQuery(organizationId, plantId), ...often });
  const refused = useQuery({ ...refusedQuery(organizationId, plantId), ...often });
  const unregistered = useQuery({ ...unregisteredQuery(organizationId, plantId), ...often });
  const newest = refused.data?.data[0];
  const params = { slug, plantId };
  const hasValues = (latest.data?.length ?? 0) > 0;
  return (
    <>
      <Failure error={latest.error ?? refused.error ?? unregistered.error} />
      <Note done={hasValues}>
        {hasValues ? (
          <>
            <strong>{texts.newPlant.arrived(latest.data?.length ?? 0)}</strong>{" "}
            <Link to="/o/$slug/plants/$plantId/live" params={params}>
              {texts.newPlant.openPlant}
            </Link>
          </>
        ) : (
          texts.newPlant.waiting(plant.name)
        )}
      </Note>
      {!hasValues && <TrialCommand plant={plant} />}
      {newest !== undefined && (
        <article className="card refusal">
          <h3>{texts.messages.reasons[newest.reason].title}</h3>
          <p>
            <code>{newest.detail}</code>
          </p>
          <p className="hint">{texts.messages.reasons[newest.reason].action}</p>
        </article>
      )}
      {unregistered.data !== undefined && unregistered.data.length > 0 && (
        <p className="hint">
          {texts.newPlant.unregistered(unregistered.data.map(({ externalId }) => externalId).join(", "))}{" "}
          <Link to="/o/$slug/plants/$plantId/devices" params={params}>
            {texts.newPlant.registerThem}
          </Link>
        </p>
      )}
    </>
  );
}

/** How to send a message without the plant's own software. */
function TrialCommand({ plant }: { plant: Plant }) {
  const texts = useTexts();
  const devices = useQuery(subDevicesQuery(plant.organizationId, plant.id));
  const templates = useQuery(templatesQuery);
  if (devices.data === undefined || templates.data === undefined) return null;
  return (
    <CopyField
      label={texts.newPlant.tryCommand}
      value={sendCommand(plant.serialNumber, devices.data.data, templates.data)}
    />
  );
}

function Note({ done, children }: { done: boolean; children: ReactNode }) {
  return <output className={done ? "card" : "card waiting"}>{children}</output>;
}
