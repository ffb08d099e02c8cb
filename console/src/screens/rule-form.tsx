import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Suspense, useId, useState } from "react";
import { apiOf, dataOf } from "../api/client";
import { useTexts } from "../i18n";
import { latestQuery } from "../plants";
import { keyChoices, type MetricChoice, plantChoices, unitOf } from "../rule-metrics";
import { type AlertRule, backTest, CONDITIONS, type NewAlertRule, ruleChanges, ruleOf } from "../rules";
import { LAST, type Last, rangeOf } from "../searches/history";
import { mayAct } from "../session";
import { SEVERITIES } from "../severities";
import { templatesOfAllLevelsQuery } from "../templates";
import { Failure } from "../ui/failure";
import { CheckField, Field, NumberField, Options, SelectField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { lazyPart } from "../ui/lazy-part";
import type { TestedRule } from "./back-test";
import { PlantPicker } from "./plant-picker";

const route = getRouteApi("/inside/o/$slug");
const BackTestResult = lazyPart(async () => (await import("./back-test")).BackTestResult);
/** Units that the service converts, and those of the system templates. */
const UNITS = ["%", "kW", "kWh", "V", "A", "Hz", "°C"];

/** The fields of a rule, and what it would have raised in the last days. */
export function RuleForm({ rule }: { rule: AlertRule | null }) {
  const texts = useTexts();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const id = useId();
  const { user, organization } = route.useRouteContext();
  const { id: organizationId, slug } = organization;
  // The rule is read again while the form is open.
  const [shown] = useState(rule);
  const [plantId, setPlantId] = useState(shown?.plantId ?? null);
  const [last, setLast] = useState<Last>("7d");
  const choices = useMetricChoices(organizationId, plantId);
  const [metric, setMetric] = useState(shown?.metric ?? "");
  // Without an entry, that of the values: a rule that exists keeps its own, which may be none.
  const [unit, setUnit] = useState(shown === null ? null : (shown.unit ?? ""));
  const toList = () => navigate({ to: "/o/$slug/rules", params: { slug } });
  const save = useMutation({
    mutationFn: (body: NewAlertRule) => {
      const call = apiOf(organizationId);
      if (shown === null) return dataOf(call.POST("/api/v1/alert-rules", { body }));
      const params = { path: { id: shown.id } };
      return dataOf(call.PATCH("/api/v1/alert-rules/{id}", { params, body: ruleChanges(shown, body) }));
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: [organizationId, "rules"] });
      await toList();
    },
  });
  const test = useMutation({
    mutationFn: async (tested: NewAlertRule): Promise<TestedRule> => {
      const range = rangeOf({ last }, Date.now());
      return { rule: tested, range, result: await backTest(organizationId, tested, range) };
    },
  });
  return (
    <>
      <Form className="card form wide" onSubmit={(values) => save.mutate(ruleOf(values, plantId))}>
        <Field label={texts.devices.name} name="name" required maxLength={200} defaultValue={shown?.name} />
        <PlantPicker organizationId={organizationId} slug={slug} plantId={plantId} onChange={setPlantId} />
        <div className="fields">
          <Field
            label={texts.rules.metric}
            name="metric"
            required
            maxLength={100}
            list={`${id}-metrics`}
            value={metric}
            onChange={({ target }) => setMetric(target.value)}
            hint={choices.find((one) => one.metric === metric)?.label ?? texts.rules.metricHint}
          />
          <SelectField
            label={texts.rules.condition}
            name="condition"
            defaultValue={shown?.condition}
            values={CONDITIONS}
            labels={texts.rules.comparisons}
          />
          <NumberField label={texts.rules.threshold} name="threshold" required defaultValue={shown?.threshold} />
          <Field
            label={texts.rules.unit}
            name="unit"
            maxLength={20}
            list={`${id}-units`}
            value={unit ?? unitOf(metric, choices)}
            onChange={({ target }) => setUnit(target.value)}
            hint={texts.rules.unitHint}
          />
          <SelectField
            label={texts.alerts.severity}
            name="severity"
            defaultValue={shown?.severity ?? "WARNING"}
            values={SEVERITIES}
            labels={texts.severity}
          />
          <Field
            label={texts.rules.forSeconds}
            name="forSeconds"
            type="number"
            min={0}
            max={86_400}
            required
            defaultValue={shown?.forSeconds ?? 0}
          />
          <Field
            label={texts.rules.cooldown}
            name="cooldownMinutes"
            type="number"
            min={1}
            max={1440}
            required
            defaultValue={shown?.cooldownMinutes ?? 15}
          />
          <NumberField
            label={texts.rules.clear}
            name="clearThreshold"
            defaultValue={shown?.clearThreshold ?? ""}
            hint={texts.rules.clearHint}
          />
        </div>
        <p className="fine">{texts.rules.help}</p>
        <CheckField name="autoResolve" defaultChecked={shown?.autoResolve}>
          {texts.rules.autoResolve}
        </CheckField>
        <CheckField name="enabled" defaultChecked={shown?.enabled ?? true}>
          {texts.rules.enabled}
        </CheckField>
        <datalist id={`${id}-metrics`}>
          {choices.map(({ metric, label, unit }) => (
            <option key={metric} value={metric} label={unit === "" ? label : `${label}, ${unit}`} />
          ))}
        </datalist>
        <datalist id={`${id}-units`}>
          {UNITS.map((unit) => (
            <option key={unit} value={unit} />
          ))}
        </datalist>
        <div className="toolbar">
          <button
            type="button"
            disabled={test.isPending}
            onClick={({ currentTarget: { form } }) =>
              form?.reportValidity() && test.mutate(ruleOf(new FormData(form), plantId))
            }
          >
            {test.isPending ? texts.loading : texts.rules.test}
          </button>
          <select
            aria-label={texts.history.range}
            value={last}
            onChange={({ target }) => setLast(target.value as Last)}
          >
            <Options values={LAST} labels={texts.history.last} />
          </select>
        </div>
        <Failure error={test.error} />
        <Failure error={save.error} />
        {mayAct(user, organization, "OPERATOR") ? (
          <Buttons action={texts.save} disabled={save.isPending} onCancel={toList} />
        ) : (
          <p className="fine">{texts.rules.onlyOperators}</p>
        )}
      </Form>
      {test.data && (
        <Suspense>
          <BackTestResult organizationId={organizationId} tested={test.data} />
        </Suspense>
      )}
    </>
  );
}

/** The metrics of the plant, or the keys of all templates. */
function useMetricChoices(organizationId: string, plantId: string | null): MetricChoice[] {
  const latest = useQuery({ ...latestQuery(organizationId, plantId ?? ""), enabled: plantId !== null });
  const templates = useQuery(templatesOfAllLevelsQuery);
  const keys = keyChoices(templates.data ?? [], useTexts().templates.labelOf);
  return plantId === null ? keys : plantChoices(latest.data ?? [], keys);
}
