import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { cacheQuery, type Organization } from "../admin";
import { api, dataOf } from "../api/client";
import { count, percent } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { Confirm } from "../ui/dialog";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { PageHead } from "../ui/page-head";
import { Section } from "../ui/section";
import { OrganizationFinder } from "./organization-finder";

/** The cache of responses: its use, and how to empty it. */
export function CacheScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const queryClient = useQueryClient();
  const { data, error } = useQuery(cacheQuery);
  const [isFlushing, setIsFlushing] = useState(false);
  const reload = () => queryClient.invalidateQueries(cacheQuery);
  const [flushing, setFlushing] = useState<Organization | null>(null);
  const [flushed, setFlushed] = useState<Organization | null>(null);
  return (
    <>
      <PageHead title={texts.admin.cache} of="Gridfleet" />
      <p className="fine">{texts.admin.cacheHelp}</p>
      <Failure error={error} />
      {data && (
        <dl className="details block">
          <Fact name={texts.admin.hitRate}>
            {percent((100 * data.hits) / Math.max(1, data.hits + data.misses), locale)}{" "}
            <span className="fine">{texts.admin.hits(count(data.hits, locale), count(data.misses, locale))}</span>
          </Fact>
          <Fact name={texts.admin.entries}>
            {count(data.totalKeys, locale)} <span className="fine">{data.memory}</span>
          </Fact>
        </dl>
      )}
      <div className="toolbar">
        <button type="button" className="danger" onClick={() => setIsFlushing(true)}>
          {texts.admin.flushAll}
        </button>
      </div>
      <Section title={texts.admin.flushOrganization}>
        <output>{flushed !== null && texts.admin.flushedFor(flushed.name)}</output>
        <OrganizationFinder>
          {(organization) => (
            <button type="button" onClick={() => setFlushing(organization)}>
              {texts.admin.flush}
              <span className="hidden">{texts.admin.ofNamed(organization.name)}</span>
            </button>
          )}
        </OrganizationFinder>
      </Section>
      {isFlushing && (
        <Confirm
          title={texts.admin.flushTitle}
          consequence={texts.admin.flushConsequence}
          name="cache"
          action={texts.admin.flushAll}
          run={async () => {
            await dataOf(api.DELETE("/api/v1/admin/cache/flush"));
            await reload();
          }}
          onClose={() => setIsFlushing(false)}
        />
      )}
      {flushing !== null && (
        <Confirm
          title={texts.admin.flushTitleOf(flushing.name)}
          consequence={texts.admin.flushConsequenceOf(flushing.name)}
          name={flushing.name}
          action={texts.admin.flush}
          run={async () => {
            const params = { path: { orgId: flushing.id } };
            await dataOf(api.DELETE("/api/v1/admin/cache/flush/{orgId}", { params }));
            setFlushed(flushing);
            await reload();
          }}
          onClose={() => setFlushing(null)}
        />
      )}
    </>
  );
}
