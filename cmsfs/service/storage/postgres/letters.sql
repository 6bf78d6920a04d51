-- Which characters make a word, and which of them are the same: as SQLite's tokenizer has it that the index
-- of words uses there (unicode61).  Written by `python -m tests.support.sqlite_letters`.

CREATE OR REPLACE FUNCTION other_words_of(content text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  marks CONSTANT text :=
    '[\u0300-\u0304\u0306-\u030C\u030F\u0311\u031B\u0323-\u0328\u032D-\u032E\u0330-\u0331]+';
  separators CONSTANT text :=
    '[\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B1\u00B4\u00B6-\u00B8\u00BB\u00BF'
    '\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u02E5-\u02EB\u02ED\u02EF-\u02FF\u0305\u030D-\u030E\u0310'
    '\u0312-\u031A\u031C-\u0322\u0329-\u032C\u032F\u0332-\u036F\u0375\u037E\u0384-\u0385\u0387\u03F6'
    '\u0482-\u0489\u055A-\u055F\u0589-\u058A\u058F\u0591-\u05C7\u05F3-\u05F4\u0600-\u0604\u0606-\u061B'
    '\u061E-\u061F\u064B-\u065F\u066A-\u066D\u0670\u06D4\u06D6-\u06E4\u06E7-\u06ED\u06FD-\u06FE'
    '\u0700-\u070D\u070F\u0711\u0730-\u074A\u07A6-\u07B0\u07EB-\u07F3\u07F6-\u07F9\u0816-\u0819'
    '\u081B-\u0823\u0825-\u0827\u0829-\u082D\u0830-\u083E\u0859-\u085B\u085E\u08E4-\u08FE\u0900-\u0903'
    '\u093A-\u093C\u093E-\u094F\u0951-\u0957\u0962-\u0965\u0970\u0981-\u0983\u09BC\u09BE-\u09C4'
    '\u09C7-\u09C8\u09CB-\u09CD\u09D7\u09E2-\u09E3\u09F2-\u09F3\u09FA-\u09FB\u0A01-\u0A03\u0A3C'
    '\u0A3E-\u0A42\u0A47-\u0A48\u0A4B-\u0A4D\u0A51\u0A70-\u0A71\u0A75\u0A81-\u0A83\u0ABC\u0ABE-\u0AC5'
    '\u0AC7-\u0AC9\u0ACB-\u0ACD\u0AE2-\u0AE3\u0AF0-\u0AF1\u0B01-\u0B03\u0B3C\u0B3E-\u0B44\u0B47-\u0B48'
    '\u0B4B-\u0B4D\u0B56-\u0B57\u0B62-\u0B63\u0B70\u0B82\u0BBE-\u0BC2\u0BC6-\u0BC8\u0BCA-\u0BCD\u0BD7'
    '\u0BF3-\u0BFA\u0C01-\u0C03\u0C3E-\u0C44\u0C46-\u0C48\u0C4A-\u0C4D\u0C55-\u0C56\u0C62-\u0C63\u0C7F'
    '\u0C82-\u0C83\u0CBC\u0CBE-\u0CC4\u0CC6-\u0CC8\u0CCA-\u0CCD\u0CD5-\u0CD6\u0CE2-\u0CE3\u0D02-\u0D03'
    '\u0D3E-\u0D44\u0D46-\u0D48\u0D4A-\u0D4D\u0D57\u0D62-\u0D63\u0D79\u0D82-\u0D83\u0DCA\u0DCF-\u0DD4'
    '\u0DD6\u0DD8-\u0DDF\u0DF2-\u0DF4\u0E31\u0E34-\u0E3A\u0E3F\u0E47-\u0E4F\u0E5A-\u0E5B\u0EB1'
    '\u0EB4-\u0EB9\u0EBB-\u0EBC\u0EC8-\u0ECD\u0F01-\u0F1F\u0F34-\u0F3F\u0F71-\u0F87\u0F8D-\u0F97'
    '\u0F99-\u0FBC\u0FBE-\u0FCC\u0FCE-\u0FDA\u102B-\u103E\u104A-\u104F\u1056-\u1059\u105E-\u1060'
    '\u1062-\u1064\u1067-\u106D\u1071-\u1074\u1082-\u108D\u108F\u109A-\u109F\u10FB\u135D-\u1368'
    '\u1390-\u1399\u1400\u166D-\u166E\u1680\u169B-\u169C\u16EB-\u16ED\u1712-\u1714\u1732-\u1736'
    '\u1752-\u1753\u1772-\u1773\u17B4-\u17D6\u17D8-\u17DB\u17DD\u1800-\u180E\u18A9\u1920-\u192B'
    '\u1930-\u193B\u1940\u1944-\u1945\u19B0-\u19C0\u19C8-\u19C9\u19DE-\u19FF\u1A17-\u1A1B\u1A1E-\u1A1F'
    '\u1A55-\u1A5E\u1A60-\u1A7C\u1A7F\u1AA0-\u1AA6\u1AA8-\u1AAD\u1B00-\u1B04\u1B34-\u1B44\u1B5A-\u1B7C'
    '\u1B80-\u1B82\u1BA1-\u1BAD\u1BE6-\u1BF3\u1BFC-\u1BFF\u1C24-\u1C37\u1C3B-\u1C3F\u1C7E-\u1C7F'
    '\u1CC0-\u1CC7\u1CD0-\u1CE8\u1CED\u1CF2-\u1CF4\u1DC0-\u1DE6\u1DFC-\u1DFF\u1FBD\u1FBF-\u1FC1'
    '\u1FCD-\u1FCF\u1FDD-\u1FDF\u1FED-\u1FEF\u1FFD-\u1FFE\u2000-\u2064\u206A-\u206F\u207A-\u207E'
    '\u208A-\u208E\u20A0-\u20B9\u20D0-\u20F0\u2100-\u2101\u2103-\u2106\u2108-\u2109\u2114\u2116-\u2118'
    '\u211E-\u2123\u2125\u2127\u2129\u212E\u213A-\u213B\u2140-\u2144\u214A-\u214D\u214F\u2190-\u23F3'
    '\u2400-\u2426\u2440-\u244A\u249C-\u24E9\u2500-\u26FF\u2701-\u2775\u2794-\u2B4C\u2B50-\u2B59'
    '\u2CE5-\u2CEA\u2CEF-\u2CF1\u2CF9-\u2CFC\u2CFE-\u2CFF\u2D70\u2D7F\u2DE0-\u2E2E\u2E30-\u2E3B'
    '\u2E80-\u2E99\u2E9B-\u2EF3\u2F00-\u2FD5\u2FF0-\u2FFB\u3000-\u3004\u3008-\u3020\u302A-\u3030'
    '\u3036-\u3037\u303D-\u303F\u3099-\u309C\u30A0\u30FB\u3190-\u3191\u3196-\u319F\u31C0-\u31E3'
    '\u3200-\u321E\u322A-\u3247\u3250\u3260-\u327F\u328A-\u32B0\u32C0-\u32FE\u3300-\u33FF\u4DC0-\u4DFF'
    '\uA490-\uA4C6\uA4FE-\uA4FF\uA60D-\uA60F\uA66F-\uA67E\uA69F\uA6F0-\uA6F7\uA700-\uA716\uA720-\uA721'
    '\uA789-\uA78A\uA802\uA806\uA80B\uA823-\uA82B\uA836-\uA839\uA874-\uA877\uA880-\uA881\uA8B4-\uA8C4'
    '\uA8CE-\uA8CF\uA8E0-\uA8F1\uA8F8-\uA8FA\uA926-\uA92F\uA947-\uA953\uA95F\uA980-\uA983\uA9B3-\uA9CD'
    '\uA9DE-\uA9DF\uAA29-\uAA36\uAA43\uAA4C-\uAA4D\uAA5C-\uAA5F\uAA77-\uAA79\uAA7B\uAAB0\uAAB2-\uAAB4'
    '\uAAB7-\uAAB8\uAABE-\uAABF\uAAC1\uAADE-\uAADF\uAAEB-\uAAF1\uAAF5-\uAAF6\uABE3-\uABED\uFB1E\uFB29'
    '\uFBB2-\uFBC1\uFD3E-\uFD3F\uFDFC-\uFDFD\uFE00-\uFE19\uFE20-\uFE26\uFE30-\uFE52\uFE54-\uFE66'
    '\uFE68-\uFE6B\uFEFF\uFF01-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFE6\uFFE8-\uFFEE'
    '\uFFF9-\uFFFF\U00010100-\U00010102\U00010137-\U0001013F\U00010179-\U00010189\U00010190-\U0001019B'
    '\U000101D0-\U000101FD\U0001039F\U000103D0\U00010857\U0001091F\U0001093F\U00010A01-\U00010A03'
    '\U00010A05-\U00010A06\U00010A0C-\U00010A0F\U00010A38-\U00010A3A\U00010A3F\U00010A50-\U00010A58'
    '\U00010A7F\U00010B39-\U00010B3F\U00011000-\U00011002\U00011038-\U0001104D\U00011080-\U00011082'
    '\U000110B0-\U000110C1\U00011100-\U00011102\U00011127-\U00011134\U00011140-\U00011143'
    '\U00011180-\U00011182\U000111B3-\U000111C0\U000111C5-\U000111C8\U000116AB-\U000116B7'
    '\U00012470-\U00012473\U00016F51-\U00016F7E\U00016F8F-\U00016F92\U0001D000-\U0001D0F5'
    '\U0001D100-\U0001D126\U0001D129-\U0001D1DD\U0001D200-\U0001D245\U0001D300-\U0001D356\U0001D6C1'
    '\U0001D6DB\U0001D6FB\U0001D715\U0001D735\U0001D74F\U0001D76F\U0001D789\U0001D7A9\U0001D7C3'
    '\U0001EEF0-\U0001EEF1\U0001F000-\U0001F02B\U0001F030-\U0001F093\U0001F0A0-\U0001F0AE'
    '\U0001F0B1-\U0001F0BE\U0001F0C1-\U0001F0CF\U0001F0D1-\U0001F0DF\U0001F110-\U0001F12E'
    '\U0001F130-\U0001F16B\U0001F170-\U0001F19A\U0001F1E6-\U0001F202\U0001F210-\U0001F23A'
    '\U0001F240-\U0001F248\U0001F250-\U0001F251\U0001F300-\U0001F320\U0001F330-\U0001F335'
    '\U0001F337-\U0001F37C\U0001F380-\U0001F393\U0001F3A0-\U0001F3C4\U0001F3C6-\U0001F3CA'
    '\U0001F3E0-\U0001F3F0\U0001F400-\U0001F43E\U0001F440\U0001F442-\U0001F4F7\U0001F4F9-\U0001F4FC'
    '\U0001F500-\U0001F53D\U0001F540-\U0001F543\U0001F550-\U0001F567\U0001F5FB-\U0001F640'
    '\U0001F645-\U0001F64F\U0001F680-\U0001F6C5\U0001F700-\U0001F773\U000E0001\U000E0020-\U000E007F'
    '\U000E0100-\U000E01EF]+';
  others CONSTANT text :=
    '[^\u00B5\u00C0-\u00D6\u00D8-\u00DE\u00E0-\u00E5\u00E7-\u00EF\u00F1-\u00F6\u00F9-\u00FD\u00FF-\u0110'
    '\u0112-\u0126\u0128-\u0130\u0132\u0134-\u0137\u0139-\u013F\u0141\u0143-\u0148\u014A\u014C-\u0152'
    '\u0154-\u0166\u0168-\u017F\u0181-\u0182\u0184\u0186-\u0187\u0189-\u018B\u018E-\u0191\u0193-\u0194'
    '\u0196-\u0198\u019C-\u019D\u019F-\u01A2\u01A4\u01A6-\u01A7\u01A9\u01AC\u01AE-\u01B3\u01B5'
    '\u01B7-\u01B8\u01BC\u01C4-\u01C5\u01C7-\u01C8\u01CA-\u01CB\u01CD-\u01DC\u01DE-\u01E0\u01E2\u01E4'
    '\u01E6-\u01EE\u01F0-\u01F2\u01F4-\u01FC\u01FE\u0200-\u021C\u021E-\u0220\u0222\u0224\u0226-\u0233'
    '\u023A-\u023B\u023D-\u023E\u0241\u0243-\u0246\u0248\u024A\u024C\u024E\u0370\u0372\u0376\u0386'
    '\u0388-\u038A\u038C\u038E-\u038F\u0391-\u03A1\u03A3-\u03AB\u03C2\u03CF-\u03D1\u03D5-\u03D6\u03D8'
    '\u03DA\u03DC\u03DE\u03E0\u03E2\u03E4\u03E6\u03E8\u03EA\u03EC\u03EE\u03F0-\u03F1\u03F4-\u03F5\u03F7'
    '\u03F9-\u03FA\u03FD-\u042F\u0460\u0462\u0464\u0466\u0468\u046A\u046C\u046E\u0470\u0472\u0474\u0476'
    '\u0478\u047A\u047C\u047E\u0480\u048A\u048C\u048E\u0490\u0492\u0494\u0496\u0498\u049A\u049C\u049E'
    '\u04A0\u04A2\u04A4\u04A6\u04A8\u04AA\u04AC\u04AE\u04B0\u04B2\u04B4\u04B6\u04B8\u04BA\u04BC\u04BE'
    '\u04C0-\u04C1\u04C3\u04C5\u04C7\u04C9\u04CB\u04CD\u04D0\u04D2\u04D4\u04D6\u04D8\u04DA\u04DC\u04DE'
    '\u04E0\u04E2\u04E4\u04E6\u04E8\u04EA\u04EC\u04EE\u04F0\u04F2\u04F4\u04F6\u04F8\u04FA\u04FC\u04FE'
    '\u0500\u0502\u0504\u0506\u0508\u050A\u050C\u050E\u0510\u0512\u0514\u0516\u0518\u051A\u051C\u051E'
    '\u0520\u0522\u0524\u0526\u0531-\u0556\u10A0-\u10C5\u10C7\u10CD\u1E00-\u1E99\u1E9B\u1E9E\u1EA0-\u1EFA'
    '\u1EFC\u1EFE\u1F08-\u1F0F\u1F18-\u1F1D\u1F28-\u1F2F\u1F38-\u1F3F\u1F48-\u1F4D\u1F59\u1F5B\u1F5D'
    '\u1F5F\u1F68-\u1F6F\u1F88-\u1F8F\u1F98-\u1F9F\u1FA8-\u1FAF\u1FB8-\u1FBC\u1FBE\u1FC8-\u1FCC'
    '\u1FD8-\u1FDB\u1FE8-\u1FEC\u1FF8-\u1FFC\u2126\u212A-\u212B\u2132\u2160-\u216F\u2183\u2C00-\u2C2E'
    '\u2C60\u2C62-\u2C64\u2C67\u2C69\u2C6B\u2C6D-\u2C70\u2C72\u2C75\u2C7E-\u2C80\u2C82\u2C84\u2C86\u2C88'
    '\u2C8A\u2C8C\u2C8E\u2C90\u2C92\u2C94\u2C96\u2C98\u2C9A\u2C9C\u2C9E\u2CA0\u2CA2\u2CA4\u2CA6\u2CA8'
    '\u2CAA\u2CAC\u2CAE\u2CB0\u2CB2\u2CB4\u2CB6\u2CB8\u2CBA\u2CBC\u2CBE\u2CC0\u2CC2\u2CC4\u2CC6\u2CC8'
    '\u2CCA\u2CCC\u2CCE\u2CD0\u2CD2\u2CD4\u2CD6\u2CD8\u2CDA\u2CDC\u2CDE\u2CE0\u2CE2\u2CEB\u2CED\u2CF2'
    '\uA640\uA642\uA644\uA646\uA648\uA64A\uA64C\uA64E\uA650\uA652\uA654\uA656\uA658\uA65A\uA65C\uA65E'
    '\uA660\uA662\uA664\uA666\uA668\uA66A\uA66C\uA680\uA682\uA684\uA686\uA688\uA68A\uA68C\uA68E\uA690'
    '\uA692\uA694\uA696\uA722\uA724\uA726\uA728\uA72A\uA72C\uA72E\uA732\uA734\uA736\uA738\uA73A\uA73C'
    '\uA73E\uA740\uA742\uA744\uA746\uA748\uA74A\uA74C\uA74E\uA750\uA752\uA754\uA756\uA758\uA75A\uA75C'
    '\uA75E\uA760\uA762\uA764\uA766\uA768\uA76A\uA76C\uA76E\uA779\uA77B\uA77D-\uA77E\uA780\uA782\uA784'
    '\uA786\uA78B\uA78D\uA790\uA792\uA7A0\uA7A2\uA7A4\uA7A6\uA7A8\uA7AA\uFF21-\uFF3A\U00010400-\U00010427'
    ']+';
  variants CONSTANT text :=
    'µÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞàáâãäåçèéêëìíîïñòóôõöùúûüýÿĀāĂăĄąĆćĈĉĊċČčĎďĐĒēĔĕĖėĘęĚěĜĝĞğĠġĢģĤĥĦĨĩĪī'
    'ĬĭĮįİĲĴĵĶķĹĺĻļĽľĿŁŃńŅņŇňŊŌōŎŏŐőŒŔŕŖŗŘřŚśŜŝŞşŠšŢţŤťŦŨũŪūŬŭŮůŰűŲųŴŵŶŷŸŹźŻżŽžſƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƠơƢƤƦ'
    'ƧƩƬƮƯưƱƲƳƵƷƸƼǄǅǇǈǊǋǍǎǏǐǑǒǓǔǕǖǗǘǙǚǛǜǞǟǠǢǤǦǧǨǩǪǫǬǭǮǰǱǲǴǵǶǷǸǹǺǻǼǾȀȁȂȃȄȅȆȇȈȉȊȋȌȍȎȏȐȑȒȓȔȕȖȗȘșȚțȜȞȟȠȢȤȦȧȨȩ'
    'ȪȫȬȭȮȯȰȱȲȳȺȻȽȾɁɃɄɅɆɈɊɌɎͰͲͶΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫςϏϐϑϕϖϘϚϜϞϠϢϤϦϨϪϬϮϰϱϴϵϷϹϺϽϾϿЀЁЂЃЄЅІЇЈЉЊЋЌ'
    'ЍЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨ'
    'ӪӬӮӰӲӴӶӸӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢႣႤႥႦႧႨႩႪႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹႺႻႼႽႾ'
    'ႿჀჁჂჃჄჅჇჍḀḁḂḃḄḅḆḇḈḉḊḋḌḍḎḏḐḑḒḓḔḕḖḗḘḙḚḛḜḝḞḟḠḡḢḣḤḥḦḧḨḩḪḫḬḭḮḯḰḱḲḳḴḵḶḷḸḹḺḻḼḽḾḿṀṁṂṃṄṅṆṇṈṉṊṋṌṍṎṏṐṑṒṓṔṕṖṗṘṙṚ'
    'ṛṜṝṞṟṠṡṢṣṤṥṦṧṨṩṪṫṬṭṮṯṰṱṲṳṴṵṶṷṸṹṺṻṼṽṾṿẀẁẂẃẄẅẆẇẈẉẊẋẌẍẎẏẐẑẒẓẔẕẖẗẘẙẛẞẠạẢảẤấẦầẨẩẪẫẬậẮắẰằẲẳẴẵẶặẸẹẺẻẼẽẾếỀềỂ'
    'ểỄễỆệỈỉỊịỌọỎỏỐốỒồỔổỖỗỘộỚớỜờỞởỠỡỢợỤụỦủỨứỪừỬửỮữỰựỲỳỴỵỶỷỸỹỺỼỾἈἉἊἋἌἍἎἏἘἙἚἛἜἝἨἩἪἫἬἭἮἯἸἹἺἻἼἽἾἿὈὉὊὋὌὍὙὛὝὟὨὩ'
    'ὪὫὬὭὮὯᾈᾉᾊᾋᾌᾍᾎᾏᾘᾙᾚᾛᾜᾝᾞᾟᾨᾩᾪᾫᾬᾭᾮᾯᾸᾹᾺΆᾼιῈΈῊΉῌῘῙῚΊῨῩῪΎῬῸΌῺΏῼΩKÅℲⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅬⅭⅮⅯↃⰀⰁⰂⰃⰄⰅⰆⰇⰈⰉⰊⰋⰌⰍⰎⰏⰐⰑⰒⰓⰔⰕⰖⰗ'
    'ⰘⰙⰚⰛⰜⰝⰞⰟⰠⰡⰢⰣⰤⰥⰦⰧⰨⰩⰪⰫⰬⰭⰮⱠⱢⱣⱤⱧⱩⱫⱭⱮⱯⱰⱲⱵⱾⱿⲀⲂⲄⲆⲈⲊⲌⲎⲐⲒⲔⲖⲘⲚⲜⲞⲠⲢⲤⲦⲨⲪⲬⲮⲰⲲⲴⲶⲸⲺⲼⲾⳀⳂⳄⳆⳈⳊⳌⳎⳐⳒⳔⳖⳘⳚⳜⳞⳠⳢⳫⳭⳲꙀꙂꙄꙆꙈꙊꙌꙎꙐ'
    'ꙒꙔꙖꙘꙚꙜꙞꙠꙢꙤꙦꙨꙪꙬꚀꚂꚄꚆꚈꚊꚌꚎꚐꚒꚔꚖꜢꜤꜦꜨꜪꜬꜮꜲꜴꜶꜸꜺꜼꜾꝀꝂꝄꝆꝈꝊꝌꝎꝐꝒꝔꝖꝘꝚꝜꝞꝠꝢꝤꝦꝨꝪꝬꝮꝹꝻꝽꝾꞀꞂꞄꞆꞋꞍꞐꞒꞠꞢꞤꞦꞨꞪＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲ'
    'ＳＴＵＶＷＸＹＺ𐐀𐐁𐐂𐐃𐐄𐐅𐐆𐐇𐐈𐐉𐐊𐐋𐐌𐐍𐐎𐐏𐐐𐐑𐐒𐐓𐐔𐐕𐐖𐐗𐐘𐐙𐐚𐐛𐐜𐐝𐐞𐐟𐐠𐐡𐐢𐐣𐐤𐐥𐐦𐐧';
  letters CONSTANT text :=
    'μaaaaaaæceeeeiiiiðnoooooøuuuuyþaaaaaaceeeeiiiinooooouuuuyyaaaaaaccccccccddđeeeeeeeeeegggggggghhħiiii'
    'iiiiiĳjjkkllllllŀłnnnnnnŋooooooœrrrrrrssssssssttttŧuuuuuuuuuuuuwwyyyzzzzzzsɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵooƣƥʀ'
    'ƨʃƭʈuuʊʋƴƶʒƹƽǆǆǉǉǌǌaaiioouuuuuuuuuuaaǡǣǥggkkooooǯjǳǳggƕƿnnaaǽǿaaaaeeeeiiiioooorrrruuuussttȝhhƞȣȥaaee'
    'ooooooooyyⱥȼƚⱦɂƀʉʌɇɉɋɍɏͱͳͷάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋσϗβθφπϙϛϝϟϡϣϥϧϩϫϭϯκρθεϸϲϻͻͼͽѐёђѓєѕіїјљњћќ'
    'ѝўџабвгдежзийклмнопрстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧө'
    'ӫӭӯӱӳӵӷӹӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆⴀⴁⴂⴃⴄⴅⴆⴇⴈⴉⴊⴋⴌⴍⴎⴏⴐⴑⴒⴓⴔⴕⴖⴗⴘⴙⴚⴛⴜⴝⴞ'
    'ⴟⴠⴡⴢⴣⴤⴥⴧⴭaabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmmmmmmnnnnnnnnoooooooopppprrr'
    'rrrrrssssssssssttttttttuuuuuuuuuuvvvvwwwwwwwwwwxxxxyyzzzzzzhtwysßaaaaaaaaaaaaaaaaaaaaaaaaeeeeeeeeeee'
    'eeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyyỻỽỿἀἁἂἃἄἅἆἇἐἑἒἓἔἕἠἡἢἣἤἥἦἧἰἱἲἳἴἵἶἷὀὁὂὃὄὅὑὓὕὗὠὡ'
    'ὢὣὤὥὦὧᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾰᾱὰάᾳιὲέὴήῃῐῑὶίῠῡὺύῥὸόὼώῳωkaⅎⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻⅼⅽⅾⅿↄⰰⰱⰲⰳⰴⰵⰶⰷⰸⰹⰺⰻⰼⰽⰾⰿⱀⱁⱂⱃⱄⱅⱆⱇ'
    'ⱈⱉⱊⱋⱌⱍⱎⱏⱐⱑⱒⱓⱔⱕⱖⱗⱘⱙⱚⱛⱜⱝⱞⱡɫᵽɽⱨⱪⱬɑɱɐɒⱳⱶȿɀⲁⲃⲅⲇⲉⲋⲍⲏⲑⲓⲕⲗⲙⲛⲝⲟⲡⲣⲥⲧⲩⲫⲭⲯⲱⲳⲵⲷⲹⲻⲽⲿⳁⳃⳅⳇⳉⳋⳍⳏⳑⳓⳕⳗⳙⳛⳝⳟⳡⳣⳬⳮⳳꙁꙃꙅꙇꙉꙋꙍꙏꙑ'
    'ꙓꙕꙗꙙꙛꙝꙟꙡꙣꙥꙧꙩꙫꙭꚁꚃꚅꚇꚉꚋꚍꚏꚑꚓꚕꚗꜣꜥꜧꜩꜫꜭꜯꜳꜵꜷꜹꜻꜽꜿꝁꝃꝅꝇꝉꝋꝍꝏꝑꝓꝕꝗꝙꝛꝝꝟꝡꝣꝥꝧꝩꝫꝭꝯꝺꝼᵹꝿꞁꞃꞅꞇꞌɥꞑꞓꞡꞣꞥꞧꞩɦａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒ'
    'ｓｔｕｖｗｘｙｚ𐐨𐐩𐐪𐐫𐐬𐐭𐐮𐐯𐐰𐐱𐐲𐐳𐐴𐐵𐐶𐐷𐐸𐐹𐐺𐐻𐐼𐐽𐐾𐐿𐑀𐑁𐑂𐑃𐑄𐑅𐑆𐑇𐑈𐑉𐑊𐑋𐑌𐑍𐑎𐑏';
  found text;
  present text;
BEGIN
  found := regexp_replace(lower(content COLLATE "C"), marks, '', 'g');
  found := regexp_replace(found COLLATE "C", separators, ' ', 'g');
  -- Of the many variants of letters a text has few, and each that is looked for takes its time.
  present := regexp_replace(found COLLATE "C", others, '', 'g');
  IF present != '' THEN
    SELECT string_agg(DISTINCT one, '') INTO present FROM string_to_table(present, NULL) AS t (one);
    found := translate(found, present, translate(present, variants, letters));
  END IF;
  RETURN ' ' || btrim(found) || ' ';
END $$;

CREATE OR REPLACE FUNCTION words_of(content text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
  IF octet_length(content) = length(content) THEN
    RETURN ' ' || btrim(regexp_replace(lower(content COLLATE "C"), '[^a-z0-9]+', ' ', 'g')) || ' ';
  END IF;
  RETURN other_words_of(content);
END $$;
