import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { apiOf, dataOf, inOrganization } from "../api/client";
import type { components } from "../api/schema";
import { dateTime } from "../format/times";
import { type Catalogue, useLocale, useTexts } from "../i18n";
import { type ApiKey, isForBroker, keysQuery, networksOf, SCOPES, type Scope } from "../partners";
import { Age } from "../ui/age";
import { Confirm, Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { CheckField, Field, TextField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { useNow } from "../ui/now";
import { PageHead } from "../ui/page-head";
import { Pager } from "../ui/pager";
import { type Secrets, SecretsDialog } from "../ui/secret";
import { ListTable } from "../ui/table";
import { ForAdministrators } from "./for-administrators";
import { KeyTestDialog } from "./key-test-dialog";
import { type PickedPlant, PlantsPicker } from "./plants-picker";

type CreatedKey = components["schemas"]["CreatedKey"];

const route = getRouteApi("/inside/o/$slug/partners");

/** The keys with which programs and trading partners use the organisation. */
export function PartnersScreen() {
  const texts = useTexts();
  return (
    <ForAdministrators title={texts.partners.title}>
      <Partners />
    </ForAdministrators>
  );
}

function Partners() {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(1);
  const queryClient = useQueryClient();
  const { organization } = route.useRouteContext();
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const keys = useQuery(keysQuery(organization.id, page));
  const [isAdding, setIsAdding] = useState(false);
  const [created, setCreated] = useState<CreatedKey | null>(null);
  const [tested, setTested] = useState<ApiKey | null>(null);
  const [revoking, setRevoking] = useState<ApiKey | null>(null);
  return (
    <>
      <PageHead title={texts.partners.title} of={organization.name}>
        <button type="button" className="primary" onClick={() => setIsAdding(true)}>
          {texts.partners.add}
        </button>
      </PageHead>
      <Failure error={keys.error} />
      <ListTable
        rows={keys.data?.data}
        none={texts.partners.none}
        headings={[
          texts.partners.key,
          texts.partners.scopes,
          texts.partners.lastUsed,
          texts.partners.validUntil,
          { label: texts.partners.revoke, kind: "hidden" },
        ]}
      >
        {(key) => (
          <tr key={key.id}>
            <th scope="row">
              {key.name}
              <span className="fine">
                {key.partnerId} · <code>{key.keyPrefix}…</code>
              </span>
            </th>
            <td className="wrap">
              {key.scopes.map((scope) => (
                <div key={scope}>
                  {texts.partners.explained[scope]} <code className="fine">{scope}</code>
                </div>
              ))}
              {key.allowedPlantIds !== null && (
                <span className="fine">{texts.partners.onlyPlants(key.allowedPlantIds.length)}</span>
              )}
              {key.allowedIps.length > 0 && (
                <span className="fine">{texts.partners.onlyFrom(key.allowedIps.join(", "))}</span>
              )}
            </td>
            <td>
              <Age time={key.lastUsedAt} now={now} timeZone={organization.timeZone} short />
            </td>
            <td>{key.expiresAt === null ? texts.partners.noEnd : dateTime(key.expiresAt, "UTC", locale)}</td>
            <td className="number">
              {key.isActive ? (
                <>
                  {isForBroker(key) && (
                    <button type="button" onClick={() => setTested(key)}>
                      {texts.partners.test}
                    </button>
                  )}{" "}
                  <button type="button" onClick={() => setRevoking(key)}>
                    {texts.partners.revoke}
                  </button>
                </>
              ) : (
                <span className="fine">{key.revokedAt === null ? texts.partners.expired : texts.partners.revoked}</span>
              )}
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={keys.data?.meta} onPage={(next) => navigate({ search: { page: next } })} />
      {isAdding && <NewKey onClose={() => setIsAdding(false)} onCreated={setCreated} />}
      {created !== null && <SecretsDialog secrets={secretsOf(created, texts)} onClose={() => setCreated(null)} />}
      {tested !== null && <KeyTestDialog apiKey={tested} onClose={() => setTested(null)} />}
      {revoking !== null && (
        <Confirm
          title={texts.partners.revokeTitle(revoking.name)}
          consequence={texts.partners.revokeConsequence}
          name={revoking.name}
          action={texts.partners.revoke}
          run={async () => {
            await dataOf(
              apiOf(organization.id).DELETE("/api/v1/partner/api-keys/{id}", {
                params: { header: inOrganization(organization.id), path: { id: revoking.id } },
              }),
            );
            await queryClient.invalidateQueries({ queryKey: [organization.id, "keys"] });
          }}
          onClose={() => setRevoking(null)}
        />
      )}
    </>
  );
}

function secretsOf({ apiKey, key, signingKey }: CreatedKey, { partners }: Catalogue): Secrets {
  return {
    title: partners.created(apiKey.name),
    explanation: partners.once,
    values: { [partners.secretKey]: key, ...(signingKey !== null && { [partners.signingKey]: signingKey }) },
  };
}

function NewKey({ onClose, onCreated }: { onClose: () => void; onCreated: (created: CreatedKey) => void }) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const { organization } = route.useRouteContext();
  const [plants, setPlants] = useState<readonly PickedPlant[]>([]);
  const create = useMutation({
    mutationFn: (form: FormData) =>
      dataOf(
        apiOf(organization.id).POST("/api/v1/partner/api-keys", {
          params: { header: inOrganization(organization.id) },
          body: {
            name: String(form.get("name")),
            partnerId: String(form.get("partnerId")),
            scopes: form.getAll("scope") as Scope[],
            ...(plants.length > 0 && { allowedPlantIds: plants.map(({ id }) => id) }),
            allowedIps: networksOf(String(form.get("networks"))),
            ...(form.get("expires") !== "" && { expiresAt: `${form.get("expires")}:00Z` }),
          },
        }),
      ),
    onSuccess: async (created) => {
      onClose();
      onCreated(created);
      await queryClient.invalidateQueries({ queryKey: [organization.id, "keys"] });
    },
  });
  return (
    <Dialog title={texts.partners.add} onClose={onClose} isKept={create.isPending}>
      <Form onSubmit={(values) => create.mutate(values)}>
        <Field label={texts.people.name} name="name" required maxLength={100} />
        <Field label={texts.partners.partnerId} name="partnerId" required maxLength={100} />
        <fieldset className="scopes">
          <legend>{texts.partners.scopes}</legend>
          {SCOPES.map((scope) => (
            <CheckField key={scope} name="scope" value={scope}>
              <span>
                {texts.partners.explained[scope]} <code className="fine">{scope}</code>
              </span>
            </CheckField>
          ))}
        </fieldset>
        <PlantsPicker organizationId={organization.id} plants={plants} onChange={setPlants} />
        <TextField label={texts.partners.networks} name="networks" rows={2} placeholder="192.0.2.0/24" />
        <Field label={texts.partners.expires} name="expires" type="datetime-local" />
        <Failure error={create.error} />
        <Buttons action={texts.partners.create} disabled={create.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
