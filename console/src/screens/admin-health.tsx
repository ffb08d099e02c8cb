import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { cacheQuery, readinessQuery } from "../admin";
import { api, dataOf } from "../api/client";
import { count } from "../format/quantities";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { PageHead } from "../ui/page-head";
import { Section } from "../ui/section";
import { CheckState } from "../ui/state";
import { Table } from "../ui/table";

/** Whether the service can work, and its cache. */
export function HealthScreen() {
  const texts = useTexts();
  return (
    <>
      <PageHead title={texts.admin.health} of="Gridfleet" />
      <Checks />
      <Cache />
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
      {data && (
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

function Cache() {
  const texts = useTexts();
  const locale = useLocale();
  const queryClient = useQueryClient();
  const { data, error } = useQuery(cacheQuery);
  const flush = useMutation({
    mutationFn: () => dataOf(api.DELETE("/api/v1/admin/cache/flush")),
    onSuccess: () => queryClient.invalidateQueries(cacheQuery),
  });
  return (
    <Section title={texts.admin.cache} isCard>
      <Failure error={error ?? flush.error} />
      {data && (
        <dl className="details block">
          <Fact name={texts.admin.hitRate}>
            {data.hitRate}{" "}
            <span className="fine">{texts.admin.hits(count(data.hits, locale), count(data.misses, locale))}</span>
          </Fact>
          <Fact name={texts.admin.entries}>
            {count(data.totalKeys, locale)} <span className="fine">{data.memory}</span>
          </Fact>
        </dl>
      )}
      <div className="toolbar">
        <button type="button" onClick={() => flush.mutate()} disabled={flush.isPending}>
          {texts.admin.flush}
        </button>
        {flush.isSuccess && <output>{texts.admin.flushed}</output>}
      </div>
    </Section>
  );
}
