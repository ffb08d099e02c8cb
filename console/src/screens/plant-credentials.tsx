import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { apiOf, dataOf, inOrganization, REPEATED_WITHIN } from "../api/client";
import { mayBeMade } from "../api/error";
import { dateTime, until } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { type Plant, plantQuery } from "../plants";
import { knownZone } from "../searches/values";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { CopyButton } from "../ui/copy-field";
import { Confirm } from "../ui/dialog";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { Moment } from "../ui/moment";
import { useNow } from "../ui/now";
import { type Secrets, SecretsDialog } from "../ui/secret";
import { Section } from "../ui/section";
import { ProvisioningPackage } from "./provisioning-package";

const route = getRouteApi("/inside/o/$slug/plants/$plantId");

/** Milliseconds for which messages with the former secret are accepted. */
const GRACE = 3_600_000;

/** How the plant logs in, and everything that can be done to its credentials. */
export function PlantCredentialsScreen() {
  const { user, organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const plant = useQuery(plantQuery(organization.id, plantId));
  if (plant.data === undefined) return null;
  const mayChange = mayAct(user, organization, "ORG_ADMIN");
  return <Credentials slug={organization.slug} plant={plant.data} mayChange={mayChange} />;
}

function Credentials({ slug, plant, mayChange }: { slug: string; plant: Plant; mayChange: boolean }) {
  const texts = useTexts();
  const [secrets, setSecrets] = useState<Secrets | null>(null);
  // The package stays on the screen after the plant became ACTIVE: the service does not return it again.
  const [isNew, setIsNew] = useState(plant.lifecycleStatus === "PENDING");
  return (
    <>
      <Facts plant={plant} />
      {mayChange && isNew && <ProvisioningPackage slug={slug} plant={plant} onSaved={() => setIsNew(false)} />}
      {mayChange && !isNew && <Actions plant={plant} onSecrets={setSecrets} />}
      {!mayChange && <p className="fine">{texts.credentials.onlyAdministrators}</p>}
      {secrets !== null && <SecretsDialog secrets={secrets} onClose={() => setSecrets(null)} />}
    </>
  );
}

function Facts({ plant }: { plant: Plant }) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(1);
  const zone = knownZone(plant.effectiveTimeZone);
  const { certificateExpiresAt, certificateFingerprint, secretRotatedAt, lastAuthFailureAt } = plant;
  return (
    <dl className="card details">
      <Fact name={texts.credentials.method}>{texts.credentials.methods[plant.authMethod]}</Fact>
      <Fact name={texts.credentials.lifecycle}>{texts.lifecycle[plant.lifecycleStatus]}</Fact>
      {certificateExpiresAt !== null && (
        <Fact name={texts.credentials.expires}>
          <Moment time={certificateExpiresAt} timeZone={zone} />
        </Fact>
      )}
      {certificateFingerprint !== null && (
        <Fact name={texts.credentials.fingerprint}>
          <code>{certificateFingerprint}</code> <CopyButton value={certificateFingerprint} />
        </Fact>
      )}
      {secretRotatedAt !== null && (
        <Fact name={texts.credentials.rotated}>
          <Age time={secretRotatedAt} now={now} timeZone={zone} />
        </Fact>
      )}
      {secretRotatedAt !== null && now < Date.parse(secretRotatedAt) + GRACE && (
        <Fact name={texts.credentials.formerEnds}>{until(Date.parse(secretRotatedAt) + GRACE, now, locale)}</Fact>
      )}
      <Fact name={texts.credentials.failures}>{plant.authFailureCount}</Fact>
      {lastAuthFailureAt !== null && (
        <Fact name={texts.credentials.lastFailure}>
          <Age time={lastAuthFailureAt} now={now} timeZone={zone} />
        </Fact>
      )}
    </dl>
  );
}

/** Return whether the same change, made again, gets the response that was lost instead of being made a second time. */
function isRepeat({ error, submittedAt }: { error: Error | null; submittedAt: number }): boolean {
  return mayBeMade(error) && Date.now() - submittedAt < REPEATED_WITHIN;
}

function Actions({ plant, onSecrets }: { plant: Plant; onSecrets: (secrets: Secrets) => void }) {
  const texts = useTexts();
  const locale = useLocale();
  const queryClient = useQueryClient();
  const [confirming, setConfirming] = useState<"rotate" | "renew" | "suspend" | "revoke" | null>(null);
  const close = () => setConfirming(null);
  const call = apiOf(plant.organizationId);
  const params = { header: inOrganization(plant.organizationId), path: { id: plant.id } };
  const reload = () => queryClient.invalidateQueries(plantQuery(plant.organizationId, plant.id));
  const rotate = useMutation({
    mutationFn: () => dataOf(call.POST("/api/v1/plants/{id}/rotate-secret", { params })),
    onSuccess: ({ hmacSecret, previousValidUntil }) => {
      close();
      onSecrets({
        title: texts.credentials.newSecret,
        explanation: texts.credentials.oldUntil(
          dateTime(previousValidUntil, knownZone(plant.effectiveTimeZone), locale),
        ),
        values: { [texts.credentials.secret]: hmacSecret },
      });
      return reload();
    },
  });
  const renew = useMutation({
    mutationFn: () => dataOf(call.POST("/api/v1/plants/{id}/renew-certificate", { params })),
    onSuccess: ({ clientCert, clientKey }) => {
      close();
      onSecrets({
        title: texts.credentials.newCertificate,
        explanation: texts.credentials.shownOnce,
        values: { [texts.credentials.certificate]: clientCert, [texts.credentials.key]: clientKey },
      });
      return reload();
    },
  });
  const token = useMutation({
    mutationFn: () => dataOf(call.POST("/api/v1/plants/{id}/mqtt-token", { params })),
    onSuccess: ({ token: issued, expiresAt }) =>
      onSecrets({
        title: texts.credentials.newToken,
        explanation: texts.credentials.validUntil(dateTime(expiresAt, knownZone(plant.effectiveTimeZone), locale)),
        values: { [texts.credentials.token]: issued },
      }),
  });
  const reactivate = useMutation({
    mutationFn: () => dataOf(call.POST("/api/v1/plants/{id}/reactivate", { params })),
    onSuccess: reload,
  });
  const { lifecycleStatus: lifecycle, authMethod: method, secretRotatedAt, previousCertificateValidUntil } = plant;
  // Until then, the plant may use what was replaced. What replaces it once more ends that at once. After a response that was
  // lost, the same request gets it: nothing is replaced a second time.
  const isRotated = secretRotatedAt !== null && Date.now() < Date.parse(secretRotatedAt) + GRACE && !isRepeat(rotate);
  const isRenewed =
    previousCertificateValidUntil !== null &&
    Date.now() < Date.parse(previousCertificateValidUntil) &&
    !isRepeat(renew);
  if (lifecycle === "DECOMMISSIONED") return <p className="hint">{texts.credentials.decommissioned}</p>;
  const isActive = lifecycle === "ACTIVE";
  return (
    <Section title={texts.credentials.actions}>
      <Failure error={rotate.error ?? renew.error ?? token.error ?? reactivate.error} />
      <div className="toolbar">
        <button
          type="button"
          onClick={() => (isRotated ? setConfirming("rotate") : rotate.mutate())}
          disabled={rotate.isPending}
        >
          {texts.credentials.rotate}
        </button>
        {isActive && method === "MTLS" && (
          <button
            type="button"
            onClick={() => (isRenewed ? setConfirming("renew") : renew.mutate())}
            disabled={renew.isPending}
          >
            {texts.credentials.renew}
          </button>
        )}
        {isActive && method === "TOKEN" && (
          <button type="button" onClick={() => token.mutate()} disabled={token.isPending}>
            {texts.credentials.issueToken}
          </button>
        )}
        {isActive ? (
          <button type="button" onClick={() => setConfirming("suspend")}>
            {texts.credentials.suspend}
          </button>
        ) : (
          <button type="button" onClick={() => reactivate.mutate()} disabled={reactivate.isPending}>
            {texts.credentials.reactivate}
          </button>
        )}
        <button type="button" className="danger" onClick={() => setConfirming("revoke")}>
          {texts.credentials.revoke}
        </button>
      </div>
      {confirming === "rotate" && (
        <Confirm
          title={texts.credentials.rotateTitle(plant.name)}
          consequence={texts.credentials.rotateConsequence}
          name={plant.name}
          action={texts.credentials.rotate}
          run={() => rotate.mutateAsync()}
          onClose={close}
        />
      )}
      {confirming === "renew" && (
        <Confirm
          title={texts.credentials.renewTitle(plant.name)}
          consequence={texts.credentials.renewConsequence}
          name={plant.name}
          action={texts.credentials.renew}
          run={() => renew.mutateAsync()}
          onClose={close}
        />
      )}
      {confirming === "suspend" && (
        <Confirm
          title={texts.credentials.suspendTitle(plant.name)}
          consequence={texts.credentials.suspendConsequence}
          action={texts.credentials.suspend}
          run={async () => {
            await dataOf(call.POST("/api/v1/plants/{id}/suspend", { params }));
            await reload();
          }}
          onClose={close}
        />
      )}
      {confirming === "revoke" && (
        <Confirm
          title={texts.credentials.revokeTitle(plant.name)}
          consequence={texts.credentials.revokeConsequence}
          name={plant.name}
          action={texts.credentials.revoke}
          run={async () => {
            await dataOf(call.POST("/api/v1/plants/{id}/revoke", { params }));
            await reload();
          }}
          onClose={close}
        />
      )}
    </Section>
  );
}
