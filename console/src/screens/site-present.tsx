import { exact, number } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import type { SiteConfiguration } from "../trading";
import { Fact } from "../ui/fact";
import { Moment } from "../ui/moment";
import { Section } from "../ui/section";

/** What partners have set, with the limits that their commands must keep to. */
export function SitePresent({ site, timeZone }: { site: SiteConfiguration; timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const { modeOverride: override, fallback, constraints } = site;
  const limits: [name: string, value: number | null | undefined, unit: string][] = [
    [texts.trading.limits.import, constraints.importLimitKw, "kW"],
    [texts.trading.limits.export, constraints.exportLimitKw, "kW"],
    [texts.trading.limits.charge, constraints.chargeMaxKw, "kW"],
    [texts.trading.limits.discharge, constraints.dischargeMaxKw, "kW"],
    [texts.trading.limits.socMin, constraints.socMinPct, "%"],
    [texts.trading.limits.socMax, constraints.socMaxPct, "%"],
  ];
  const set = limits.filter(([, value]) => typeof value === "number");
  return (
    <Section title={texts.trading.present} isCard>
      <dl className="details block">
        <Fact name={texts.trading.mode}>
          {texts.trading.modes[site.operatingMode]}
          {override !== null && (
            <span className="fine">
              {" "}
              {override.expiresAt === null ? (
                texts.trading.endless
              ) : (
                <>
                  {texts.trading.until} <Moment time={override.expiresAt} timeZone={timeZone} />
                </>
              )}
            </span>
          )}
        </Fact>
        <Fact name={texts.trading.fallback}>
          {fallback.mode === null || fallback.afterSeconds === null
            ? texts.trading.none
            : `${texts.trading.modes[fallback.mode]}, ${texts.trading.afterSilence(fallback.afterSeconds)}`}
        </Fact>
        <Fact name={texts.trading.open}>{number(site.pendingCommands.length, locale)}</Fact>
        {set.map(([name, value, unit]) => (
          <Fact key={name} name={name}>
            {exact(value, unit, locale)}
          </Fact>
        ))}
      </dl>
      <p className="fine">
        {texts.trading.byPartners} {set.length < limits.length && texts.trading.unlimited(set.length)}
      </p>
    </Section>
  );
}
