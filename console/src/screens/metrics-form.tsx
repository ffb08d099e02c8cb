import { useTexts } from "../i18n";
import { fullName, type MetricName } from "../metrics";
import { MOST_UNITS, type Point } from "../plants";
import { offeredMetrics } from "../searches/history";
import { CheckField } from "../ui/fields";

const MOST_METRICS = 6;

interface Props {
  latest: Point[];
  chosen: string[];
  nameOf: (metric: string) => MetricName;
  onChoose: (metrics: string[]) => void;
}

/** The metrics that a chart may show: a box for each. */
export function MetricsForm({ latest, chosen, nameOf, onChoose }: Props) {
  const texts = useTexts();
  const units = new Set(latest.filter(({ metric }) => chosen.includes(metric)).map(({ unit }) => unit ?? ""));
  return (
    <fieldset>
      <legend className="hidden">{texts.history.choose}</legend>
      <p className="fine">{texts.history.most(MOST_METRICS, MOST_UNITS)}</p>
      {offeredMetrics(latest, chosen).map(({ metric, unit }) => {
        const isChosen = chosen.includes(metric);
        const isFull = chosen.length >= MOST_METRICS || (units.size >= MOST_UNITS && !units.has(unit ?? ""));
        return (
          <CheckField
            key={metric}
            checked={isChosen}
            disabled={!isChosen && isFull}
            onChange={() => onChoose(isChosen ? chosen.filter((one) => one !== metric) : [...chosen, metric])}
          >
            {fullName(nameOf(metric))} <span className="unit">{unit}</span>
          </CheckField>
        );
      })}
    </fieldset>
  );
}
