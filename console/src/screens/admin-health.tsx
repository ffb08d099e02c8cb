import { useQuery } from "@tanstack/react-query";
import { readinessQuery } from "../admin";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { Failure } from "../ui/failure";
import { PageHead } from "../ui/page-head";
import { Section } from "../ui/section";
import { CheckState } from "../ui/state";
import { Table } from "../ui/table";

/** Whether the service can work. */
export function HealthScreen() {
  const texts = useTexts();
  return (
    <>
      <PageHead title={texts.admin.health} of="Gridfleet" />
      <Checks />
    </>
  );
}

function Checks() {
  const texts = useTexts();
  const locale = useLocale();
  const { data, error } = useQuery(readinessQuery);
  const names: Record<string, string> = texts.admin.checks;
  const results: Record<string, string> = texts.admin.results;
  return (
    <Section title={texts.admin.service}>
      <Failure error={error} />
      {data === null && <p className="hint">{texts.admin.notRevealed}</p>}
      {data && !error && (
        <>
          <p role="status">
            <CheckState
              isGood={data.status === "healthy"}
              word={data.status === "healthy" ? texts.admin.healthy : texts.admin.unhealthy}
            />{" "}
            <span className="fine">{dateTime(data.timestamp, "UTC", locale)}</span>
          </p>
          <Table headings={[texts.admin.check, texts.admin.result]}>
            {Object.entries(data.checks).map(([name, result]) => (
              <tr key={name}>
                <th scope="row">{names[name] ?? name}</th>
                <td>
                  <CheckState isGood={result === "ok"} word={results[result] ?? result} />
                </td>
              </tr>
            ))}
          </Table>
          <p className="fine">{texts.admin.doctor}</p>
        </>
      )}
    </Section>
  );
}
