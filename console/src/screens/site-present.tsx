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
  const limits: [string, string][] = [
    [texts.trading.limits.import, exact(constraints.importLimitKw, "kW", locale)],
    [texts.trading.limits.export, exact(constraints.exportLimitKw, "kW", locale)],
    [texts.trading.limits.charge, exact(constraints.chargeMaxKw, "kW", locale)],
    [texts.trading.limits.discharge, exact(constraints.dischargeMaxKw, "kW", locale)],
    [texts.trading.limits.socMin, exact(constraints.socMinPct, "%", locale)],
    [texts.trading.limits.socMax, exact(constraints.socMaxPct, "%", locale)],
  ];
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
        {limits.map(([name, value]) => (
          <Fact key={name} name={name}>
            {value}
          </Fact>
        ))}
      </dl>
      <p className="fine">{texts.trading.byPartners}</p>
    </Section>
  );
}
