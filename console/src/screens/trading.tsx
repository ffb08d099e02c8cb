import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";

import { Sites } from "./sites";
import { TradingConfiguration } from "./trading-configuration";

const route = getRouteApi("/inside/o/$slug/trading");

/** The ESM of the organisation, and its sites with what partners have set there. */
export function TradingScreen() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  return (
    <>
      <title>{`${texts.trading.title} · ${organization.name}`}</title>
      <h1>{texts.trading.title}</h1>
      <TradingConfiguration />
      <Sites />
    </>
  );
}
