import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { apiOf, dataOf, given } from "../api/client";
import { changesOf } from "../form-data";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { mayAct } from "../session";
import { type TradingConfig, tradingQuery } from "../trading";
import { Age } from "../ui/age";
import { Confirm, Dialog } from "../ui/dialog";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { useNow } from "../ui/now";
import { Section } from "../ui/section";

const route = getRouteApi("/inside/o/$slug/trading");

/** The ESM of the organisation: shown to members, changed by administrators. */
export function TradingConfiguration() {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(1);
  const queryClient = useQueryClient();
  const { user, organization } = route.useRouteContext();
  const config = useQuery(tradingQuery(organization.id));
  const [isEditing, setIsEditing] = useState(false);
  const [isDisabling, setIsDisabling] = useState(false);
  const call = apiOf(organization.id);
  const reload = () => queryClient.invalidateQueries(tradingQuery(organization.id));
  const enable = useMutation({
    mutationFn: () => dataOf(call.POST("/api/v1/trading/config/enable", {})),
    onSuccess: reload,
  });
  const sync = useMutation({
    mutationFn: () => dataOf(call.POST("/api/v1/trading/plants/sync", {})),
    onSuccess: reload,
  });
  const { data } = config;
  const isEnabled = data?.status === "ENABLED";
  return (
    <Section title={texts.trading.esm} isCard>
      <p className="fine">{texts.trading.esmHelp}</p>
      <Failure error={config.error ?? enable.error ?? sync.error} />
      {data !== undefined && (
        <dl className="details block">
          <Fact name={texts.trading.status}>
            <strong>{texts.trading.statuses[data.status]}</strong>{" "}
            <span className="fine">{texts.trading.statusHelp[data.status]}</span>
          </Fact>
          <Fact name={texts.trading.address}>{data.esmApiUrl ?? texts.trading.unset}</Fact>
          <Fact name={texts.trading.credentials}>
            {data.hasEsmCredentials ? (data.esmClientId ?? "") : texts.trading.unset}
          </Fact>
          <Fact name={texts.trading.prefix}>
            <code>{data.queuePrefix}</code> <span className="fine">{texts.trading.prefixHelp}</span>
          </Fact>
          <Fact name={texts.trading.lastSync}>
            <Age time={data.lastSyncAt} now={now} timeZone={organization.timeZone} />
            {data.lastSyncError !== null && <p className="hint">{data.lastSyncError}</p>}
          </Fact>
        </dl>
      )}
      {data !== undefined && mayAct(user, organization, "ORG_ADMIN") && (
        <div className="toolbar">
          <button type="button" onClick={() => setIsEditing(true)}>
            {texts.trading.change}
          </button>
          {isEnabled ? (
            <button type="button" className="danger" onClick={() => setIsDisabling(true)}>
              {texts.trading.disable}
            </button>
          ) : (
            <button type="button" onClick={() => enable.mutate()} disabled={enable.isPending}>
              {texts.trading.enable}
            </button>
          )}
          {data.esmApiUrl !== null && data.hasEsmCredentials && (
            <button type="button" onClick={() => sync.mutate()} disabled={sync.isPending}>
              {texts.trading.sync}
            </button>
          )}
          {sync.data !== undefined && (
            <output>{texts.trading.synced(count(sync.data.synced, locale), count(sync.data.errors, locale))}</output>
          )}
        </div>
      )}
      {isEditing && data !== undefined && <Settings config={data} onClose={() => setIsEditing(false)} />}
      {isDisabling && (
        <Confirm
          title={texts.trading.disableTitle(organization.name)}
          consequence={texts.trading.disableConsequence}
          name={organization.name}
          action={texts.trading.disable}
          run={async () => {
            await dataOf(call.POST("/api/v1/trading/config/disable", {}));
            await reload();
          }}
          onClose={() => setIsDisabling(false)}
        />
      )}
    </Section>
  );
}

/**
 * Address and credentials of the ESM. The stored secret is never shown; an empty field keeps it. The API can replace what is set,
 * but not remove it.
 */
function Settings({ config, onClose }: { config: TradingConfig; onClose: () => void }) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const { organization } = route.useRouteContext();
  // The configuration is read again while the form is open.
  const [shown] = useState(config);
  const change = useMutation({
    mutationFn: (values: FormData) => {
      const text = (name: string) => String(values.get(name)) || undefined;
      const login = given({
        esmApiUrl: text("esmApiUrl"),
        esmClientId: text("esmClientId"),
        esmClientSecret: text("esmClientSecret"),
      });
      const prefix = given({ queuePrefix: text("queuePrefix") });
      // Address and credentials belong together.
      const isSameLogin = Object.keys(changesOf({ ...shown, esmClientSecret: null }, login)).length === 0;
      const body = { ...(!isSameLogin && login), ...changesOf(shown, prefix) };
      return dataOf(apiOf(organization.id).POST("/api/v1/trading/config", { body }));
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries(tradingQuery(organization.id));
      onClose();
    },
  });
  return (
    <Dialog title={texts.trading.esm} onClose={onClose} isKept={change.isPending}>
      <Form onSubmit={(values) => change.mutate(values)}>
        <Field
          label={texts.trading.address}
          name="esmApiUrl"
          type="url"
          maxLength={2048}
          required={shown.esmApiUrl !== null}
          defaultValue={shown.esmApiUrl ?? ""}
        />
        <Field
          label={texts.trading.clientId}
          name="esmClientId"
          maxLength={255}
          required={shown.esmClientId !== null}
          defaultValue={shown.esmClientId ?? ""}
        />
        <Field label={texts.trading.clientSecret} name="esmClientSecret" type="password" maxLength={1024} />
        <Field
          label={texts.trading.prefix}
          hint={texts.trading.prefixHelp}
          name="queuePrefix"
          required
          maxLength={50}
          defaultValue={shown.queuePrefix}
        />
        <Failure error={change.error} />
        <Buttons action={texts.save} disabled={change.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
