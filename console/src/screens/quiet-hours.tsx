import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, dataOf } from "../api/client";
import type { components } from "../api/schema";
import { fieldText } from "../form-data";
import { useTexts } from "../i18n";
import { preferencesQuery } from "../people";
import { SEVERITIES } from "../severities";
import { Failure } from "../ui/failure";
import { Field, TimeZoneField } from "../ui/fields";
import { Form } from "../ui/form";
import { Saved } from "../ui/saved";
import { Section } from "../ui/section";

/** What waits without another choice. */
const USUAL = SEVERITIES.filter((severity) => severity !== "EMERGENCY");

/** The hours of each day in which the user's notifications wait. */
export function QuietHours() {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const preferences = useQuery(preferencesQuery);
  const change = useMutation({
    mutationFn: (quietHours: components["schemas"]["NewQuietHours"] | null) =>
      dataOf(api.PATCH("/api/v1/notifications/preferences", { body: { quietHours } })),
    onSuccess: () => queryClient.invalidateQueries(preferencesQuery),
  });
  // Why there is none is said above, where the channels are.
  if (preferences.data === undefined) return null;
  const { quietHours } = preferences.data;
  const severities = quietHours?.severities ?? USUAL;
  return (
    <Section title={texts.me.quietHours} isCard>
      <p className="fine">{texts.me.quietHelp(severities.map((severity) => texts.severity[severity]).join(", "))}</p>
      <Form
        // Fields keep the values that they begin with.
        key={JSON.stringify(quietHours)}
        onSubmit={(values) => {
          const [from, to] = [fieldText(values, "from"), fieldText(values, "to")];
          const timeZone = fieldText(values, "timeZone");
          change.mutate({ from, to, timeZone, severities });
        }}
      >
        <div className="fields">
          <Field label={texts.trading.from} name="from" type="time" required defaultValue={quietHours?.from} />
          <Field label={texts.trading.to} name="to" type="time" required defaultValue={quietHours?.to} />
          <TimeZoneField
            required
            defaultValue={quietHours?.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone}
          />
        </div>
        <Failure error={change.error} />
        <div className="toolbar">
          <button type="submit" className="primary" disabled={change.isPending}>
            {texts.save}
          </button>
          {quietHours !== null && (
            <button type="button" onClick={() => change.mutate(null)} disabled={change.isPending}>
              {texts.me.noQuietHours}
            </button>
          )}
          <Saved change={change} />
        </div>
      </Form>
    </Section>
  );
}
