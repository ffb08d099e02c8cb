import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { api, dataOf } from "../api/client";
import type { components } from "../api/schema";
import { browserOf } from "../browsers";
import { useTexts } from "../i18n";
import { type Channel, OWN_DELIVERIES, preferencesQuery, sessionsQuery } from "../people";
import { sessionQuery } from "../session";
import { SEVERITIES } from "../severities";
import { Age } from "../ui/age";
import { useChoice } from "../ui/choice";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Form } from "../ui/form";
import { useNow } from "../ui/now";
import { Saved } from "../ui/saved";
import { Section } from "../ui/section";
import { Table } from "../ui/table";
import { OwnDeliveries } from "./own-deliveries";
import { PhoneNumber } from "./phone-number";
import { QuietHours } from "./quiet-hours";

const route = getRouteApi("/inside/o/$slug/me");
const CHANNELS = ["email", "push", "sms"] as const;

/** The user's own name, password, sessions and notifications. */
export function MeScreen() {
  const texts = useTexts();
  return (
    <>
      <title>{texts.me.title}</title>
      <h1>{texts.me.title}</h1>
      <Profile />
      <Password />
      <Notifications />
      <PhoneNumber />
      <QuietHours />
      <OwnDeliveries />
      <Sessions />
    </>
  );
}

function Profile() {
  const texts = useTexts();
  const router = useRouter();
  const queryClient = useQueryClient();
  const { user } = route.useRouteContext();
  const change = useMutation({
    mutationFn: (name: string) => dataOf(api.PATCH("/api/v1/auth/me", { body: { name } })),
    onSuccess: (changed) => {
      queryClient.setQueryData(sessionQuery.queryKey, changed.user);
      return router.invalidate();
    },
  });
  return (
    <Section title={texts.me.profile} isCard>
      <Form onSubmit={(values) => change.mutate(String(values.get("name")))}>
        <Field label={texts.people.name} name="name" defaultValue={user.name} required autoComplete="name" />
        <p className="fine">{user.email}</p>
        <Failure error={change.error} />
        <div className="toolbar">
          <button type="submit" className="primary" disabled={change.isPending}>
            {texts.save}
          </button>
          <Saved change={change} />
        </div>
      </Form>
    </Section>
  );
}

function Password() {
  const texts = useTexts();
  const change = useMutation({
    mutationFn: (body: components["schemas"]["PasswordChange"]) =>
      dataOf(api.POST("/api/v1/auth/change-password", { body })),
  });
  return (
    <Section title={texts.me.password} isCard>
      <Form
        onSubmit={(values, form) =>
          change.mutate(
            { currentPassword: String(values.get("current")), newPassword: String(values.get("new")) },
            { onSuccess: () => form.reset() },
          )
        }
      >
        {/* Password managers find the account by it. */}
        <input type="hidden" autoComplete="username" value={route.useRouteContext().user.email} readOnly />
        <Field
          label={texts.me.currentPassword}
          name="current"
          type="password"
          autoComplete="current-password"
          required
        />
        <Field
          label={texts.me.newPassword}
          name="new"
          type="password"
          autoComplete="new-password"
          minLength={12}
          required
        />
        <Failure error={change.error} />
        <div className="toolbar">
          <button type="submit" className="primary" disabled={change.isPending}>
            {texts.me.changePassword}
          </button>
          <Saved change={change} />
        </div>
      </Form>
    </Section>
  );
}

function Notifications() {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const preferences = useQuery(preferencesQuery);
  const { chosen, change, choose } = useChoice(
    (body: components["schemas"]["PreferencesPatch"]) =>
      dataOf(api.PATCH("/api/v1/notifications/preferences", { body })),
    () => queryClient.invalidateQueries(preferencesQuery),
  );
  const [tested, setTested] = useState<Channel | null>(null);
  const test = useMutation({
    mutationFn: (channel: Channel) => dataOf(api.POST("/api/v1/notifications/test", { body: { channel } })),
    onSuccess: (_, channel) => {
      setTested(channel);
      return queryClient.invalidateQueries({ queryKey: OWN_DELIVERIES });
    },
  });
  const { organizations } = route.useRouteContext().user;
  if (preferences.data === undefined) return <Failure error={preferences.error} />;
  const wanted = { ...preferences.data, ...chosen };
  return (
    <Section title={texts.me.notifications} isCard tools={<Saved change={change} />}>
      <p className="fine">{texts.me.notificationsHelp}</p>
      {organizations.every(({ role }) => role === "VIEWER") && <p className="hint">{texts.me.notNotified}</p>}
      <Table
        headings={[
          texts.me.channel,
          ...SEVERITIES.map((severity) => texts.severity[severity]),
          { label: texts.me.test, kind: "hidden" },
        ]}
      >
        {CHANNELS.map((channel) => (
          <tr key={channel}>
            <th scope="row">{texts.me.channels[channel]}</th>
            {SEVERITIES.map((severity) => (
              <td key={severity}>
                <input
                  type="checkbox"
                  aria-label={`${texts.me.channels[channel]}: ${texts.severity[severity]}`}
                  checked={wanted[channel].includes(severity)}
                  disabled={change.isPending}
                  onChange={(event) =>
                    choose({
                      [channel]: SEVERITIES.filter((one) =>
                        one === severity ? event.target.checked : wanted[channel].includes(one),
                      ),
                    })
                  }
                />
              </td>
            ))}
            <td className="number">
              <button
                type="button"
                disabled={test.isPending}
                onClick={() => test.mutate(channel.toUpperCase() as Channel)}
              >
                {texts.me.test}
              </button>
            </td>
          </tr>
        ))}
      </Table>
      {tested !== null && !test.error && <output>{texts.me.testSent}</output>}
      <Failure error={change.error ?? test.error} />
    </Section>
  );
}

function Sessions() {
  const texts = useTexts();
  const now = useNow(1);
  const queryClient = useQueryClient();
  const sessions = useQuery(sessionsQuery);
  const end = useMutation({
    mutationFn: (id: string) => dataOf(api.DELETE("/api/v1/auth/sessions/{id}", { params: { path: { id } } })),
    onSettled: () => queryClient.invalidateQueries(sessionsQuery),
  });
  const nameOf = (userAgent: string | null) => {
    if (userAgent === null) return texts.me.unknownBrowser;
    const known = browserOf(userAgent);
    return known === null ? userAgent : texts.me.browserOn(...known);
  };
  return (
    <Section title={texts.me.sessions}>
      <Failure error={sessions.error ?? end.error} />
      <Table
        headings={[texts.me.browser, texts.me.address, texts.me.lastUsed, { label: texts.me.end, kind: "hidden" }]}
      >
        {sessions.data?.map((session) => (
          <tr key={session.id}>
            <th scope="row" className="wrap" title={session.userAgent ?? undefined}>
              {nameOf(session.userAgent)}
            </th>
            <td>{session.ip}</td>
            <td>
              <Age time={session.lastUsedAt} now={now} timeZone="UTC" short />
            </td>
            <td className="number">
              {session.current ? (
                <span className="fine">{texts.me.current}</span>
              ) : (
                <button type="button" onClick={() => end.mutate(session.id)} disabled={end.isPending}>
                  {texts.me.end}
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}
